#include "transports/joint/joint_endpoint.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>
#include <utility>

#include "runtime/base/descriptor.hpp"
#include "runtime/base/file_limit.hpp"
#include "runtime/base/named_thread.hpp"
#include "transports/shm/shm_endpoint.hpp"

namespace fabring {
namespace {

constexpr int longest_sleep_ms = 1000;

// Wakes the network's endpoint when the bell rings, which it does only while the rank sleeps, or a moment later.
class BellWatch {
 public:
  BellWatch(int bell, Endpoint& network)
      : bell_(bell), network_(network), over_(open_within_hard_limit([] { return ::eventfd(0, EFD_CLOEXEC); })) {}
  ~BellWatch() {
    if (!thread_.joinable()) return;
    ended_.store(true);
    const std::uint64_t one = 1;
    (void)!::write(over_.fd(), &one, sizeof one);
    thread_.join();
  }

  /// Errors: unavailable, without a descriptor to end it by or a thread.
  Status start() {
    if (over_.fd() < 0)
      return Status(ErrorCode::unavailable,
                    "no descriptor is left to wait for shared memory and a network at once: raise the limit on open "
                    "files (ulimit -n)");
    auto started = start_thread("fabring-bell", [this] { listen(); });
    if (!started) return started.error();
    thread_ = std::move(*started);
    return {};
  }

 private:
  void listen() {
    std::array<pollfd, 2> watched{{{bell_, POLLIN, 0}, {over_.fd(), POLLIN, 0}}};
    while (!ended_.load()) {
      (void)::poll(watched.data(), watched.size(), longest_sleep_ms);
      if (watched[1].revents != 0 || (watched[0].revents & POLLNVAL) != 0) return;
      std::uint64_t rings = 0;
      if (::read(bell_, &rings, sizeof rings) > 0) network_.wake();
    }
  }

  const int bell_;
  Endpoint& network_;
  Descriptor over_;
  std::atomic<bool> ended_{false};  // the same, where the program has closed that descriptor
  std::thread thread_;
};

class JointEndpoint final : public Endpoint {
 public:
  JointEndpoint(std::unique_ptr<shm::ShmEndpoint> local, std::unique_ptr<Endpoint> network, std::vector<bool> is_local)
      : local_(std::move(local)),
        network_(std::move(network)),
        is_local_(std::move(is_local)),
        watch_(std::make_unique<BellWatch>(local_->bell(), *network_)) {}
  Status start() { return watch_->start(); }

  std::string address() const override { return local_->address() + separator + network_->address(); }
  Status add_peer(Rank peer, std::string_view address) override {
    const std::size_t cut = address.find(separator);
    if (peer < 0 || static_cast<std::size_t>(peer) >= is_local_.size() || cut == std::string_view::npos)
      return Status(ErrorCode::invalid_argument, "not an address of shared memory and a network");
    return at(peer).add_peer(
        peer, is_local_[static_cast<std::size_t>(peer)] ? address.substr(0, cut) : address.substr(cut + 1));
  }
  Post post_send(Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t context) override {
    return at(peer).post_send(peer, slot, from, context);
  }
  void write_ahead(std::span<Ahead> to, std::span<const std::byte> message, std::size_t begin,
                   std::size_t end) override {
    local_->write_ahead(to, message, begin, end);
  }
  Post post_readable_send(Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t context) override {
    return at(peer).post_readable_send(peer, slot, from, context);
  }
  Post post_written(Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t context) override {
    return at(peer).post_written(peer, slot, from, context);
  }
  Post post_recv(Rank peer, Slot slot, std::span<std::byte> into, std::uint64_t context) override {
    return at(peer).post_recv(peer, slot, into, context);
  }

  Post post_cold_recv(Rank peer, Slot slot, std::span<std::byte> into, std::uint64_t context) override {
    return at(peer).post_cold_recv(peer, slot, into, context);
  }
  Post post_borrowing_recv(Rank peer, Slot slot, std::span<std::byte> into, std::uint64_t context) override {
    return at(peer).post_borrowing_recv(peer, slot, into, context);
  }
  Result<std::shared_ptr<const void>> admit_device_memory(std::span<const Rank> peers,
                                                          std::span<const std::byte> memory) override {
    std::vector<Rank> near, far;
    for (const Rank peer : peers) (is_local_[static_cast<std::size_t>(peer)] ? near : far).push_back(peer);
    if (far.empty()) return local_->admit_device_memory(near, memory);
    auto network = network_->admit_device_memory(far, memory);
    if (!network || near.empty()) return network;
    auto local = local_->admit_device_memory(near, memory);
    if (!local) return local.error().with_prefix("ranks of this host are among them: ");
    using Both = std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>;
    return std::shared_ptr<const void>(std::make_shared<const Both>(std::move(*local), std::move(*network)));
  }
  bool poll_calls_kernel() const override { return network_->poll_calls_kernel(); }
  bool reaches_devices() const override { return local_->reaches_devices() || network_->reaches_devices(); }
  std::string device_path() const override {
    return "to ranks of this host " + local_->device_path() + "; to others " + network_->device_path();
  }
  bool give_back(Rank peer, std::uint32_t loan) override { return at(peer).give_back(peer, loan); }
  bool takes_tickets(Rank peer) const override { return at(peer).takes_tickets(peer); }
  Post post_ticket(Rank peer, Slot slot, std::span<const std::byte> ticket, std::uint64_t context) override {
    return at(peer).post_ticket(peer, slot, ticket, context);
  }
  Post post_recv_or_ticket(Rank peer, Slot slot, std::span<std::byte> into, std::uint64_t context) override {
    return at(peer).post_recv_or_ticket(peer, slot, into, context);
  }
  void refuse(Rank peer, std::uint32_t loan) override { at(peer).refuse(peer, loan); }
  std::optional<std::uint64_t> hand_over(Rank peer, std::span<const Descriptor> descriptors) override {
    return at(peer).hand_over(peer, descriptors);
  }
  std::optional<std::vector<Descriptor>> take_over(Rank peer, std::uint64_t number) override {
    return at(peer).take_over(peer, number);
  }

  std::size_t poll(std::span<Completion> out) override {
    local_first_ = !local_first_;  // neither can keep the other out
    std::array<Endpoint*, 2> both{local_.get(), network_.get()};
    if (!local_first_) std::swap(both[0], both[1]);
    const std::size_t count = both[0]->poll(out);
    return count == out.size() ? count : count + both[1]->poll(out.subspan(count));
  }

  void look_now() override {
    local_->look_now();
    network_->look_now();
  }

  void wait(std::chrono::microseconds limit) override {
    if (!local_->arm()) return;
    network_->wait(limit);
    local_->disarm();
  }
  bool wait_looks() const override { return network_->wait_looks(); }
  void wake() override { network_->wake(); }

  Status peer_error(Rank peer) const override { return at(peer).peer_error(peer); }
  std::string unconnected(Rank peer) const override { return at(peer).unconnected(peer); }
  std::uint64_t bytes_in_motion(Rank peer) const override { return at(peer).bytes_in_motion(peer); }
  Status error() const override {
    const Status local = local_->error();
    return local.ok() ? network_->error() : local;
  }
  void disconnect(Rank peer) override { at(peer).disconnect(peer); }
  void finish_sending() override {
    local_->finish_sending();
    network_->finish_sending();
  }
  void close() override {
    local_->close();
    network_->close();
  }

  EndpointCounters counters() const override {
    EndpointCounters sum = local_->counters();
    const EndpointCounters more = network_->counters();
    sum.bytes_sent += more.bytes_sent;
    sum.bytes_received += more.bytes_received;
    sum.messages_sent += more.messages_sent;
    sum.messages_received += more.messages_received;
    sum.strangers += more.strangers;
    return sum;
  }
  std::shared_ptr<MemorySource> memory() override { return local_->memory(); }
  std::shared_ptr<MemorySource> mapped_memory() override { return local_->mapped_memory(); }
  FastMessages* fast_messages() override { return local_->fast_messages(); }
  unsigned way_from(Rank peer, std::size_t bytes) override { return at(peer).way_from(peer, bytes); }
  int connections_per_peer() const override { return network_->connections_per_peer(); }
  std::size_t held_bytes() const override { return local_->held_bytes() + network_->held_bytes(); }
  std::size_t most_held_bytes() const override { return local_->most_held_bytes() + network_->most_held_bytes(); }
  std::string describe() const override { return local_->describe() + "; " + network_->describe(); }

 private:
  static constexpr char separator = '|';
  Endpoint& at(Rank peer) const {
    if (is_local_[static_cast<std::size_t>(peer)]) return *local_;
    return *network_;
  }

  std::unique_ptr<shm::ShmEndpoint> local_;
  std::unique_ptr<Endpoint> network_;
  const std::vector<bool> is_local_;
  bool local_first_ = false;
  std::unique_ptr<BellWatch> watch_;  // last: ends before what it watches
};

}  // namespace

Result<std::unique_ptr<Endpoint>> make_joint_endpoint(std::unique_ptr<shm::ShmEndpoint> local,
                                                      std::unique_ptr<Endpoint> network, std::vector<bool> is_local) {
  auto joint = std::make_unique<JointEndpoint>(std::move(local), std::move(network), std::move(is_local));
  if (const Status started = joint->start(); !started.ok()) return started;
  return std::unique_ptr<Endpoint>(std::move(joint));
}

}  // namespace fabring

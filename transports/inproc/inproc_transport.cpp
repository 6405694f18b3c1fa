#include "transports/inproc/inproc_transport.hpp"

#include <fmt/format.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace fabring {

// A mailbox per rank. The sender copies straight into the posted receive, under the receiver's lock; both completions
// are queued at once, so a send never stays outstanding.
class InprocFabric {
 public:
  explicit InprocFabric(int world_size) : boxes_(world_size) {
    std::random_device source;
    id_ = (std::uint64_t{source()} << 32) | source();
  }
  std::string address_of(Rank rank) const { return fmt::format("inproc {} in {:016x}", rank, id_); }

  struct Receive {
    std::span<std::byte> into;
    std::uint64_t context;
  };
  struct Mailbox {
    std::mutex mutex;
    std::condition_variable news;
    bool woken = false;
    bool open = false;
    std::map<std::pair<Rank, Slot>, Receive> receives;
    std::deque<Completion> completions;
    std::vector<bool> dropped;  // peers this rank disconnected
    std::vector<bool> lost;     // peers that closed, dropped us or broke the protocol
    std::vector<bool> ended;    // peers that finished sending and closed while nothing was expected of them
    EndpointCounters counters;
  };
  Mailbox& box(Rank rank) { return boxes_[rank]; }
  int size() const { return static_cast<int>(boxes_.size()); }

 private:
  std::deque<Mailbox> boxes_;
  std::uint64_t id_;  // another process has another
};

std::shared_ptr<InprocFabric> make_inproc_fabric(int world_size) { return std::make_shared<InprocFabric>(world_size); }

namespace {

class InprocEndpoint final : public Endpoint {
 public:
  InprocEndpoint(std::shared_ptr<InprocFabric> fabric, Rank self) : fabric_(std::move(fabric)), self_(self) {
    auto& own = fabric_->box(self_);
    std::lock_guard lock(own.mutex);
    own.open = true;
    own.receives.clear();
    own.completions.clear();
    own.dropped.assign(fabric_->size(), false);
    own.lost.assign(fabric_->size(), false);
    own.ended.assign(fabric_->size(), false);
    own.counters = {};
    known_.assign(fabric_->size(), false);
  }
  ~InprocEndpoint() override { close(); }

  std::string address() const override { return fabric_->address_of(self_); }

  Status add_peer(Rank peer, std::string_view address) override {
    if (peer < 0 || peer >= fabric_->size() || address != fabric_->address_of(peer))
      return Status(ErrorCode::invalid_argument,
                    fmt::format("rank {} is not in this process: inproc is for ranks that are its threads", peer));
    known_[peer] = true;
    return {};
  }

  Post post_send(Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t context) override {
    Completion sent{context, Outcome::done, static_cast<std::uint32_t>(from.size())};
    auto& own = fabric_->box(self_);
    {
      std::lock_guard lock(own.mutex);
      if (own.ended[peer]) lose(own, peer);
      if (closed_ || own.dropped[peer] || own.lost[peer]) {
        sent.outcome = own.lost[peer] && !own.dropped[peer] ? Outcome::lost : Outcome::aborted;
        own.completions.push_back(sent);
        return Post::accepted;
      }
    }
    auto& there = fabric_->box(peer);
    bool broken = false;
    {
      std::lock_guard lock(there.mutex);
      if (!known_[peer] || !there.open) return Post::again;
      const auto at = there.receives.find({self_, slot});
      if (there.dropped[self_] || there.lost[self_]) {
        sent.outcome = Outcome::lost;
      } else if (at == there.receives.end() || at->second.into.size() < from.size()) {
        broken = true;  // this rank broke the contract: the receiver drops it
        sent.outcome = Outcome::lost;
        lose(there, self_);
      } else {
        if (!from.empty()) std::memcpy(at->second.into.data(), from.data(), from.size());
        there.completions.push_back({at->second.context, Outcome::done, static_cast<std::uint32_t>(from.size())});
        there.receives.erase(at);
        there.counters.bytes_received += from.size();
        ++there.counters.messages_received;
      }
      there.news.notify_one();
    }
    std::lock_guard lock(own.mutex);
    if (broken) lose(own, peer);
    own.completions.push_back(sent);
    if (sent.outcome == Outcome::done) {
      own.counters.bytes_sent += from.size();
      ++own.counters.messages_sent;
    }
    return Post::accepted;
  }

  Post post_recv(Rank peer, Slot slot, std::span<std::byte> into, std::uint64_t context) override {
    auto& own = fabric_->box(self_);
    std::lock_guard lock(own.mutex);
    const bool over = own.ended[peer] && is_quiet(slot);
    if (own.ended[peer] && !over) lose(own, peer);
    if (closed_ || own.dropped[peer] || over) {
      own.completions.push_back({context, Outcome::aborted, 0});
    } else if (own.lost[peer]) {
      own.completions.push_back({context, Outcome::lost, 0});
    } else {
      own.receives[{peer, slot}] = {into, context};
    }
    return Post::accepted;
  }

  std::size_t poll(std::span<Completion> out) override {
    auto& own = fabric_->box(self_);
    std::lock_guard lock(own.mutex);
    std::size_t count = 0;
    while (count < out.size() && !own.completions.empty()) {
      out[count++] = own.completions.front();
      own.completions.pop_front();
    }
    return count;
  }

  void wait(std::chrono::microseconds limit) override {
    auto& own = fabric_->box(self_);
    std::unique_lock lock(own.mutex);
    own.news.wait_for(lock, limit, [&] { return own.woken || !own.completions.empty(); });
    own.woken = false;
  }

  void wake() override {
    auto& own = fabric_->box(self_);
    std::lock_guard lock(own.mutex);
    own.woken = true;
    own.news.notify_one();
  }

  Status peer_error(Rank peer) const override {
    auto& own = fabric_->box(self_);
    std::lock_guard lock(own.mutex);
    if (!own.lost[peer]) return {};
    ErrorContext context;
    context.rank = peer;
    return Status(ErrorCode::peer_lost,
                  "rank " + std::to_string(peer) + " closed its inproc endpoint or broke the protocol", context);
  }

  void disconnect(Rank peer) override {
    auto& own = fabric_->box(self_);
    {
      std::lock_guard lock(own.mutex);
      own.dropped[peer] = true;
      end_receives(own, peer, Outcome::aborted);
    }
    auto& there = fabric_->box(peer);
    std::lock_guard lock(there.mutex);
    if (there.open) lose(there, self_);
    there.news.notify_one();
  }

  void finish_sending() override { finished_ = true; }  // a send is delivered when it is accepted

  void close() override {
    if (closed_) return;
    closed_ = true;
    auto& own = fabric_->box(self_);
    {
      std::lock_guard lock(own.mutex);
      own.open = false;
      for (Rank peer = 0; peer < fabric_->size(); ++peer) end_receives(own, peer, Outcome::aborted);
    }
    for (Rank peer = 0; peer < fabric_->size(); ++peer) {
      if (peer == self_ || !known_[peer]) continue;
      auto& there = fabric_->box(peer);
      std::lock_guard lock(there.mutex);
      if (there.open && finished_ && !expects(there, self_)) {
        there.ended[self_] = true;
        end_receives(there, self_, Outcome::aborted);  // the quiet ones
      } else if (there.open) {
        lose(there, self_);
      }
      there.news.notify_one();
    }
  }

  EndpointCounters counters() const override {
    auto& own = fabric_->box(self_);
    std::lock_guard lock(own.mutex);
    return own.counters;
  }

  std::string describe() const override { return "inproc, rank " + std::to_string(self_) + " of one process"; }

 private:
  static void end_receives(InprocFabric::Mailbox& box, Rank peer, Outcome outcome) {
    for (auto at = box.receives.lower_bound({peer, 0}); at != box.receives.end() && at->first.first == peer;) {
      box.completions.push_back({at->second.context, outcome, 0});
      at = box.receives.erase(at);
    }
  }
  static bool expects(const InprocFabric::Mailbox& box, Rank peer) {
    for (auto at = box.receives.lower_bound({peer, 0}); at != box.receives.end() && at->first.first == peer; ++at)
      if (!is_quiet(at->first.second)) return true;
    return false;
  }
  static void lose(InprocFabric::Mailbox& box, Rank peer) {
    if (box.lost[peer] || box.dropped[peer]) return;
    box.lost[peer] = true;
    end_receives(box, peer, Outcome::lost);
  }

  std::shared_ptr<InprocFabric> fabric_;
  const Rank self_;
  bool closed_ = false;
  bool finished_ = false;
  std::vector<bool> known_;
};

class InprocTransport final : public Transport {
 public:
  explicit InprocTransport(std::shared_ptr<InprocFabric> fabric) : fabric_(std::move(fabric)) {}
  std::string_view name() const override { return "inproc"; }
  Result<std::string> probe(const EndpointOptions& options) override {
    if (options.world_size != fabric_->size())
      return Status(ErrorCode::unsupported, "inproc needs all ranks in one process");
    return std::string("all ranks are in this process");
  }
  Result<std::unique_ptr<Endpoint>> open(const EndpointOptions& options) override {
    if (options.self < 0 || options.self >= fabric_->size())
      return Status(ErrorCode::invalid_argument, "no such rank in the inproc fabric: " + std::to_string(options.self));
    return std::unique_ptr<Endpoint>(std::make_unique<InprocEndpoint>(fabric_, options.self));
  }

 private:
  std::shared_ptr<InprocFabric> fabric_;
};

// The fabrics of the jobs that have ranks in this process.
class ProcessFabrics {
 public:
  std::shared_ptr<InprocFabric> of_job(std::uint64_t nonce, int world_size) {
    std::lock_guard lock(mutex_);
    std::erase_if(fabrics_, [](const auto& entry) { return entry.second.expired(); });
    auto& entry = fabrics_[{nonce, world_size}];
    auto fabric = entry.lock();
    if (!fabric) entry = fabric = make_inproc_fabric(world_size);
    return fabric;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<std::uint64_t, int>, std::weak_ptr<InprocFabric>> fabrics_;
};

class ProcessTransport final : public Transport {
 public:
  std::string_view name() const override { return "inproc"; }
  Result<std::string> probe(const EndpointOptions&) override {
    return std::string("for ranks that are threads of one process");
  }
  Result<std::unique_ptr<Endpoint>> open(const EndpointOptions& options) override {
    static ProcessFabrics fabrics;
    return make_inproc_transport(fabrics.of_job(options.job_nonce, options.world_size))->open(options);
  }
};

}  // namespace

std::unique_ptr<Transport> make_process_transport() { return std::make_unique<ProcessTransport>(); }

std::unique_ptr<Transport> make_inproc_transport(std::shared_ptr<InprocFabric> fabric) {
  return std::make_unique<InprocTransport>(std::move(fabric));
}

}  // namespace fabring

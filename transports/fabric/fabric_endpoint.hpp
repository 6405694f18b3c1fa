#pragma once
// FabricEndpoint: Endpoint on libfabric.
//
// On native TCP (XNET) every peer has a libfabric endpoint of its own, all on one completion queue, because a send to a
// stopped peer cannot be cancelled: only closing its endpoint ends it, and then nobody else is disturbed. See
// Introductions for how these endpoints find each other.
//
// Elsewhere (EFA, rxm) an endpoint is heavy, and one serves all peers. There disconnect() cancels the receives, but
// sends to a peer that does not take them remain until it does or until close(): their bytes may not be touched before.
// If they remain for Config::silence_timeout the endpoint closes itself, for all peers (error()): what waits for that
// memory would wait for ever.
//
// What libfabric does not tell (1.17 and 2.6): a peer that died while we only wait to receive from it, and an address
// that never answers (posting says -FI_EAGAIN for ever). For the first there is the control plane and disconnect();
// for the second a send that was answered `again` for Config::silence_timeout, with nothing under way, ends the peer.
// Messages to a slot without a receive are not detected; they stand in their own connection only.
//
// Connections of native TCP on which nothing moves are kept in the minds of firewalls by Keepalive. Those under rxm are
// not.
//
// A child of fork() holds copies of libfabric's sockets, by which peers do not see this process die: the control plane,
// whose sockets no child keeps, tells them.

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/base/clock.hpp"
#include "runtime/base/file_limit.hpp"
#include "transports/fabric/fabric_domain.hpp"
#include "transports/fabric/introductions.hpp"
#include "transports/fabric/keepalive.hpp"
#include "transports/fabric/operation.hpp"
#include "transports/fabric/peer.hpp"
#include "transports/transport.hpp"

namespace fabring::fabric {

class FabricEndpoint final : public Endpoint {
 public:
  /// Takes memory of GPUs if the choice says that the provider would, and an attempt succeeds.
  static Result<std::unique_ptr<Endpoint>> open(ProviderChoice choice, const EndpointOptions& options);
  ~FabricEndpoint() override { close_endpoints(); }

  std::string address() const override { return address_; }
  Status add_peer(Rank peer, std::string_view address) override;
  Post post_send(Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t context) override;
  Post post_recv(Rank peer, Slot slot, std::span<std::byte> into, std::uint64_t context) override;
  std::size_t poll(std::span<Completion> out) override;
  void look_now() override;
  bool poll_calls_kernel() const override { return dedicated(); }  // native TCP asks epoll, 1.17 even to read an entry
  void wait(std::chrono::microseconds limit) override;
  bool wait_looks() const override { return !domain_->can_block(); }
  void wake() override;
  Status peer_error(Rank peer) const override;
  std::string unconnected(Rank peer) const override;
  Status error() const override { return error_; }
  void disconnect(Rank peer) override;
  void finish_sending() override {}  // nothing to say: libfabric has no half-close, completions say what was flushed
  void close() override;
  EndpointCounters counters() const override;
  Result<std::shared_ptr<const void>> admit_device_memory(std::span<const Rank> peers,
                                                          std::span<const std::byte> memory) override;
  bool reaches_devices() const override;
  std::string device_path() const override;
  LinkFacts link_facts() const override { return link_facts_of(domain_->info()); }
  std::string describe() const override;

 private:
  /// What a flush reads into; nobody looks at it.
  struct Landing {
    std::byte bytes[64];
    RegistrationHandle registration;
    fi_addr_t own = FI_ADDR_UNSPEC;  ///< this endpoint's address
  };
  FabricEndpoint(std::unique_ptr<FabricDomain> domain, const EndpointOptions& options, std::uint64_t job_key);
  static Result<std::unique_ptr<FabricEndpoint>> open_one(ProviderChoice choice, const EndpointOptions& options);
  Status start();
  bool dedicated() const { return dedicated_; }
  Peer& known(Rank rank);
  Time now() const { return clock_->now(); }

  // Posting.
  void connect(Peer& peer);
  Post accepted(Peer& peer, Operation& operation);
  Post not_accepted(Peer& peer, Operation* operation, ssize_t rc, std::uint64_t context);
  Post refused(Peer& peer, const char* call, ssize_t rc, std::uint64_t context);
  Post complete_now(Outcome outcome, std::uint64_t context);
  /// What to pass with a post of memory of the host, once it is registered where the provider wants that.
  Status lock(Operation& operation, std::span<const std::byte> bytes, bool stays, void*& local);
  Post not_locked(Operation& operation, const Status& why, std::size_t bytes, std::uint64_t context);

  // Completing.
  void deliver(const Completion& completion);
  void advance_introductions();
  void look_for_trouble();
  void look_at_device();
  void reap(ssize_t rc, const fi_cq_msg_entry* entries);
  void completed(const fi_cq_msg_entry& entry);
  void failed(const fi_cq_err_entry& entry);
  void failed_late(const fi_cq_err_entry& entry);
  Status why_failed(const fi_cq_err_entry& entry) const;
  void introduced(Operation& operation, std::size_t bytes);
  void finish(Operation& operation, Outcome outcome, std::size_t bytes);
  void finish_failed(Operation& operation, Outcome outcome);
  void leave(Operation& operation);

  // Memory of GPUs (fabric_device.cpp).
  void open_for_devices(const std::shared_ptr<DeviceMemory>& memory);
  Status prepare_landing();
  /// What is said of the way.
  void note(const Status& tried, const char* with);
  /// Does the card reach memory of this GPU? Asked once, or again after a while if the host was only short of
  /// something.
  Status try_device(const DeviceAllocation& allocation, std::span<const std::byte> memory, const char* with);
  DeviceVerdict verdict() const;
  /// What to pass with a post; the operation remembers the memory.
  void* descriptor_for(Operation& operation, std::span<const std::byte> bytes);
  void flush(Operation& operation);
  void flush_again();

  // Ending.
  void fail(const Status& why);
  void lose(Peer& peer, const Status& why);
  Status explained(const Peer& peer, const Status& why) const;
  void end(Peer& peer, Outcome outcome);
  void close_endpoint_of(Peer& peer);
  void complete_all(Peer& peer);
  void close_endpoints();

  void nap(std::chrono::microseconds limit);

  const Rank self_;
  const std::uint64_t job_key_;
  const Time patience_;
  const std::string bind_address_;
  const std::function<void(const std::string&)> note_;
  FileClaim files_;
  bool noted_files_ = false;
  const std::shared_ptr<const Clock> clock_;
  OperationPool operations_;  // outlives the queue that points into it
  std::unique_ptr<FabricDomain> domain_;
  const bool dedicated_;
  // Native TCP's header has 24 bytes, and 32 with 8 of data that nobody reads. What follows 24 bytes in a page of the
  // kernel and comes from 16 or 64 bytes into a page, as NumPy's and PyTorch's vectors do, is copied at a fraction of
  // the speed (runtime/base/copy_bytes.hpp).
  const bool lengthens_headers_;
  mutable std::mutex device_mutex_;  // any thread asks for the way
  DeviceVerdict device_;             // under it once this is open
  struct Trial {
    Status answer;
    std::optional<Time> again = {};  ///< when it is tried again; nothing: it is settled
  };
  std::map<int, Trial> trials_;                         // by GPU; likewise
  std::unique_ptr<DeviceRegistrations> registrations_;  // null: no memory of GPUs; outlives the endpoints
  std::unique_ptr<Landing> landing_;                    // likewise
  std::vector<Operation*> to_flush_;                    // whose read was answered `again`
  std::vector<Peer> peers_;                             // by rank; never resized: operations point into it
  Introductions introductions_;
  Keepalive keepalive_;  // where every peer has an endpoint of its own
  EndpointHandle shared_;
  std::string address_;
  std::string name_;
  std::vector<Rank> connecting_;
  int sends_ = 0;                  // under way, to all peers
  std::vector<Rank> unfinished_;   // ended, on an endpoint that all share, with operations that are still under way
  std::vector<Completion> ready_;  // completions that poll() had no room for, or that nobody polled for yet
  std::size_t ready_taken_ = 0;
  std::span<Completion> sink_;  // the caller's room while it polls
  std::size_t sunk_ = 0;
  std::atomic<bool> woken_{false};
  Time short_since_{0};          // no memory could be locked since then, and none passes; 0: it can
  Time short_last_{0};           // the last time that it could not
  std::size_t short_bytes_ = 0;  // as much could not be
  bool noted_short_ = false;
  bool noted_unanswered_ = false;
  bool noted_unnamed_ = false;
  bool closed_ = false;
  Status error_;             // why it closed by itself
  unsigned since_look_ = 0;  // polls since the last look for an error of the device
  EndpointCounters counters_;
};

}  // namespace fabring::fabric

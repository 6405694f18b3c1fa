#pragma once
// ThreadWorld: ranks as threads of this process over the inproc transport, through shared memory, or over a transport
// that a test brings, in real time, with the real Communicator: for blocking calls, the progress thread and callers of
// several threads. The control plane is a shared table: a report is passed on at once, in the reporter's thread.

#include <functional>
#include <memory>
#include <vector>

#include "fabring/communicator.hpp"
#include "runtime/engine/engine_core.hpp"
#include "transports/transport.hpp"

namespace fabring::fixture {

class ThreadControl;

class ThreadWorld {
 public:
  /// unasked: over inproc, with short parcels, and landings for what they cannot hold.
  enum class Over : std::uint8_t { inproc, shm, unasked };
  explicit ThreadWorld(int ranks, Config config = {}, Over over = Over::inproc,
                       std::shared_ptr<DeviceRuntime> device = nullptr);
  ThreadWorld(int ranks, Config config, std::shared_ptr<DeviceRuntime> device);
  /// No memory is shared. `options` is what all endpoints are opened with, but for the rank.
  ThreadWorld(int ranks, Config config, std::shared_ptr<DeviceRuntime> device, Transport& transport,
              EndpointOptions options, const ParcelRules& parcels = {});
  ~ThreadWorld();

  int size() const { return static_cast<int>(engines_.size()); }
  Communicator world(Rank rank) { return Communicator(engines_[rank]->world()); }
  EngineCore& engine(Rank rank) { return *engines_[rank]; }
  /// The engine of this rank leaves and is gone.
  void drop(Rank rank);
  /// Runs `rank_main` for every rank in a thread of its own, and waits for all.
  void run(const std::function<void(Rank, Communicator)>& rank_main);

 private:
  void start(const Config& config, const std::shared_ptr<DeviceRuntime>& device, const std::string& machine,
             std::vector<std::unique_ptr<Endpoint>> endpoints);

  ParcelRules parcels_;
  bool shares_memory_ = true;
  std::shared_ptr<ThreadControl> control_;
  std::vector<std::shared_ptr<EngineCore>> engines_;
};

}  // namespace fabring::fixture

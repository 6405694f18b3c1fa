#include "tests/support/thread_world.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <set>
#include <thread>

#include "transports/inproc/inproc_transport.hpp"
#include "transports/shm/shm_transport.hpp"

namespace fabring::fixture {

class ThreadControl {
 public:
  explicit ThreadControl(int ranks) : handlers(ranks), refusal_handlers(ranks), left(ranks) {}

  void report(const Failure& failure) {
    std::lock_guard lock(mutex);
    if (!known.insert({failure.communicator, failure.communicator == 0 ? failure.culprit : -1}).second) return;
    for (auto& handler : handlers)
      if (handler) handler(failure);
  }

  /// Without the lock while others hear it, who may be telling something themselves.
  void tell(const RefusedCall& refusal) {
    std::vector<std::function<void(const RefusedCall&)>> others;
    {
      std::lock_guard lock(mutex);
      others = refusal_handlers;
      ++telling;
    }
    for (std::size_t rank = 0; rank < others.size(); ++rank)
      if (others[rank] && static_cast<Rank>(rank) != refusal.rank) others[rank](refusal);
    std::lock_guard lock(mutex);
    --telling;
    news.notify_all();
  }

  std::mutex mutex;
  std::condition_variable news;
  int telling = 0;
  std::vector<std::function<void(const Failure&)>> handlers;
  std::vector<std::function<void(const RefusedCall&)>> refusal_handlers;
  std::vector<bool> left;
  std::set<std::pair<std::uint64_t, Rank>> known;
};

namespace {

class ThreadControlPlane final : public ControlPlane {
 public:
  ThreadControlPlane(std::shared_ptr<ThreadControl> shared, Rank rank) : shared_(std::move(shared)), rank_(rank) {}
  ~ThreadControlPlane() override {
    std::unique_lock lock(shared_->mutex);
    shared_->handlers[rank_] = nullptr;
    shared_->refusal_handlers[rank_] = nullptr;
    shared_->news.wait(lock, [&] { return shared_->telling == 0; });  // nobody is about to call it
  }
  Result<std::vector<std::string>> all_gather(std::string) override {
    return Status(ErrorCode::unsupported, "a world of threads has nothing to gather");
  }
  void report(Failure failure) override { shared_->report(failure); }
  void on_failure(std::function<void(const Failure&)> handler) override {
    std::lock_guard lock(shared_->mutex);
    shared_->handlers[rank_] = std::move(handler);
  }
  void tell(RefusedCall refusal) override {
    refusal.rank = rank_;
    shared_->tell(refusal);
  }
  void on_refusal(std::function<void(const RefusedCall&)> handler) override {
    std::lock_guard lock(shared_->mutex);
    shared_->refusal_handlers[rank_] = std::move(handler);
  }
  void after(std::chrono::milliseconds, std::function<void()> what) override { what(); }  // nobody waits for it
  void set_activity(std::string) override {}
  std::string activity_of(Rank) const override { return {}; }
  std::string host_of(Rank) const override { return "here"; }
  Status leave(std::chrono::milliseconds limit) override {
    std::unique_lock lock(shared_->mutex);
    shared_->left[rank_] = true;
    shared_->news.notify_all();
    const bool all = shared_->news.wait_for(lock, limit, [&] {
      return std::find(shared_->left.begin(), shared_->left.end(), false) == shared_->left.end();
    });
    return all ? Status() : Status(ErrorCode::timeout, "not everybody has left");
  }
  std::uint64_t strangers() const override { return 0; }

 private:
  std::shared_ptr<ThreadControl> shared_;
  const Rank rank_;
};

std::vector<std::unique_ptr<Endpoint>> open_all(int ranks, Transport& transport, EndpointOptions options,
                                                bool to_self) {
  static std::atomic<std::uint64_t> worlds{0};
  options.job_nonce = ++worlds;
  options.world_size = ranks;
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  for (Rank rank = 0; rank < ranks; ++rank) {
    options.self = rank;
    auto endpoint = transport.open(options);
    EXPECT_TRUE(endpoint.has_value());
    endpoints.push_back(std::move(*endpoint));
  }
  for (auto& endpoint : endpoints)
    for (Rank peer = 0; peer < ranks; ++peer) {
      const auto& other = endpoints[static_cast<std::size_t>(peer)];
      if (!to_self && other == endpoint) continue;
      EXPECT_TRUE(endpoint->add_peer(peer, other->address()).ok());
    }
  return endpoints;
}

}  // namespace

ThreadWorld::ThreadWorld(int ranks, Config config, std::shared_ptr<DeviceRuntime> device)
    : ThreadWorld(ranks, std::move(config), Over::inproc, std::move(device)) {}

ThreadWorld::ThreadWorld(int ranks, Config config, Over over, std::shared_ptr<DeviceRuntime> device)
    : control_(std::make_shared<ThreadControl>(ranks)) {
  const auto transport = over == Over::shm ? make_shm_transport() : make_inproc_transport(make_inproc_fabric(ranks));
  if (over == Over::unasked) parcels_ = {1024, eager_slots, {2, std::size_t{64} << 10}};
  start(config, device, over == Over::shm ? "shared-memory" : "loopback-tcp",
        open_all(ranks, *transport, {}, over != Over::shm));
}

ThreadWorld::ThreadWorld(int ranks, Config config, std::shared_ptr<DeviceRuntime> device, Transport& transport,
                         EndpointOptions options, const ParcelRules& parcels)
    : parcels_(parcels), shares_memory_(false), control_(std::make_shared<ThreadControl>(ranks)) {
  start(config, device, "loopback-tcp", open_all(ranks, transport, std::move(options), false));
}

void ThreadWorld::start(const Config& wanted, const std::shared_ptr<DeviceRuntime>& device, const std::string& machine,
                        std::vector<std::unique_ptr<Endpoint>> endpoints) {
  const int ranks = static_cast<int>(endpoints.size());
  Config config = wanted;
  config.timeout = std::min<std::chrono::milliseconds>(config.timeout, std::chrono::seconds(60));
  for (Rank rank = 0; rank < ranks; ++rank) {
    EngineParts parts;
    parts.config = config;
    parts.self = rank;
    parts.device = device;
    parts.world_size = ranks;
    if (ranks > 1) {
      parts.endpoint = std::move(endpoints[rank]);
      parts.control = std::make_unique<ThreadControlPlane>(control_, rank);
    }
    parts.agreed.parcels = parcels_;
    parts.agreed.shares_memory = shares_memory_;
    parts.clock = std::make_shared<SteadyClock>();
    parts.machine = *find_machine(machine);
    parts.cache_bytes = 256 * 1024;  // so that tests have vectors that fit and such that do not
    parts.overrides = *parse_overrides(config.algorithm);
    parts.waiting.yield_for = std::chrono::microseconds(50);
    parts.log = Log(LogLevel::error, rank);
    engines_.push_back(EngineCore::make(std::move(parts)));
  }
  for (bool ready = false; !ready;) {
    ready = true;
    for (auto& engine : engines_) ready = engine->ready_to_receive() && ready;
  }
}

ThreadWorld::~ThreadWorld() {
  std::vector<std::thread> leaving;  // together, as the goodbyes wait for each other
  for (Rank rank = 0; rank < size(); ++rank)
    if (engines_[rank]) leaving.emplace_back([this, rank] { drop(rank); });
  for (std::thread& thread : leaving) thread.join();
}

// As Engine ends: a call of another thread may have the core yet.
void ThreadWorld::drop(Rank rank) {
  (void)engines_[rank]->leave();
  engines_[rank].reset();
}

void ThreadWorld::run(const std::function<void(Rank, Communicator)>& rank_main) {
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < size(); ++rank)
    threads.emplace_back([this, rank, &rank_main] { rank_main(rank, world(rank)); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace fabring::fixture

#pragma once
// SimWorld: ranks with real engines over a simulated fabric, driven by hand in one thread, in an order and in a time
// that come from one seed. A test reads like a sentence:
//
//   SimWorld world({.ranks = 5, .nodes = {2, 3}, .seed = 7});
//   world.everyone_calls({.count = 1000});
//   world.kill_at(3, 40us);
//   world.run();                        // until every Work of a living rank is done; checks every result on the way
//   for (auto& op : world.operations()) EXPECT_EQ(op->status().code(), ErrorCode::peer_lost);
//
// run() checks by itself: a Work that is done well has the right result, inputs and canaries are untouched, the
// endpoint holds none of its memory any more, nothing is written later, the endpoint's rules were kept. A failure
// prints the line to replay it. Small limits (eager_bytes, segment_bytes) reach deep pipelines with little data.

#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "fabring/communicator.hpp"
#include "runtime/engine/engine_core.hpp"
#include "tests/support/collective_data.hpp"
#include "tests/support/exact_data.hpp"
#include "tests/support/fake_device.hpp"
#include "tests/support/sim_control.hpp"
#include "tests/support/sim_fabric.hpp"

namespace fabring::fixture {

struct SimWorldOptions {
  int ranks = 2;
  std::vector<int> nodes = {};  ///< ranks of each node; empty: one node
  bool dealt = false;           ///< ranks to nodes in turn, instead of a node's ranks together
  std::uint64_t seed = 1;
  std::optional<Algorithm> algorithm = Algorithm::ring;  ///< of collectives that have it; none: as chosen
  bool reproducible = false;
  std::size_t eager_bytes = 64;
  std::size_t segment_bytes = 256;
  int depth = 3;
  std::size_t scratch_bytes = 0;
  std::optional<Rank> short_of_memory = {};  ///< this rank may have one page of scratch
  std::chrono::milliseconds timeout{1'800'000};
  Weather weather = {};
  bool device = false;  ///< some of the buffers are in memory of a fake GPU; only calls on one of them use it
  int devices = 1;      ///< GPUs that the fake has; the buffers are the first one's
  std::size_t staging_bytes = 0;
  std::string gpu_path = "auto";
  std::size_t lent_segment_bytes = 0;  ///< where segment_bytes is 0
  std::size_t long_segment_bytes = 0;  ///< where segment_bytes is 0
  std::string machine = "loopback-tcp";
  std::size_t unasked_limit = 0;  ///< what of eager_bytes is sent unasked; 0: all
  ParcelRules parcels = {};
  std::size_t most_running = 0;      ///< operations; 0: as everywhere
  std::optional<double> cards = {};  ///< the fabric reaches the device, but for this share of the buffers
};

/// One rank's call, with its buffers.
class SimOperation {
 public:
  bool done() const { return execution && execution->done(); }
  Status status() const { return execution->status(); }

  Rank rank = 0;  // in the world
  int group = 0;
  Request what;
  RankData data;
  std::unique_ptr<GuardedBytes> in, out;  // `out` only if in place
  std::shared_ptr<Execution> execution;
  Time done_at{};
  bool seen_done = false;
};
using SimOperations = std::vector<std::shared_ptr<SimOperation>>;

class SimWorld {
 public:
  explicit SimWorld(SimWorldOptions options);
  ~SimWorld();

  /// A communicator of these ranks; a member makes it when it first calls something on it. 0 is the world.
  int group(std::vector<Rank> members);
  std::shared_ptr<CommunicatorCore> communicator(Rank rank, int group = 0);
  /// The rank's program does not need it any more.
  void drop(Rank rank, int group) { groups_[group].made[rank].reset(); }
  /// Nor those of its operations there that are done, which keep it as long as they live.
  void drop_with_operations(Rank rank, int group);

  std::shared_ptr<SimOperation> call(Rank rank, Request what, int group = 0);
  /// Every member calls it now.
  SimOperations everyone_calls(Request what, int group = 0);
  /// Every member calls it within `spread`, each at a time of its own, in the order of its calls.
  void everyone_calls_soon(Request what, Time spread, int group = 0);

  /// It makes a call that is refused for its arguments.
  void refuse(Rank rank, const std::string& why, int group = 0);

  void kill(Rank rank);
  /// Its engine does nothing any more, but its endpoint lives: the test plays a hostile rank with fabric().open(rank).
  void mute(Rank rank);
  void pause(Rank rank, Time span);
  void kill_at(Rank rank, Time delay) {
    timeline_.after(delay, [this, rank] { kill(rank); });
  }
  void pause_at(Rank rank, Time delay, Time span) {
    timeline_.after(delay, [this, rank, span] { pause(rank, span); });
  }
  void at(Time delay, std::function<void()> event) { timeline_.after(delay, std::move(event)); }

  /// Drives until every operation of a living rank is done. False, and a test failure, if `limit` of virtual time
  /// passes.
  bool run(Time limit = std::chrono::seconds(100));
  /// Drives until `enough`; false if `limit` passed (no test failure).
  bool run_until(const std::function<bool()>& enough, Time limit);
  /// Drives for a while.
  void linger(Time span) {
    (void)run_until([] { return false; }, span);
  }
  /// Every operation done so far ended well.
  void expect_all_ok();
  /// The canaries, the results and the rules once more.
  void check_aftermath();

  const SimOperations& operations() const { return operations_; }
  EngineCore& engine(Rank rank) { return *engines_[rank]; }
  SimFabric& fabric() { return *fabric_; }
  SimControl& control() { return *control_; }
  Timeline& timeline() { return timeline_; }
  bool alive(Rank rank) const { return alive_[rank]; }
  FakeDevice& device() { return *device_; }
  /// The stream of this rank that its operations are ordered on.
  void* stream(Rank rank) { return streams_[static_cast<std::size_t>(rank)]; }
  const std::vector<std::string>& log() const { return log_; }
  /// Of these the warnings, and worse.
  const std::vector<std::string>& warnings() const { return warnings_; }
  std::string replay() const;
  void fail(const std::string& what);

 private:
  struct Group {
    std::vector<Rank> members;
    std::vector<std::shared_ptr<CommunicatorCore>> made;  // by world rank
  };
  void look_at(Rank rank);
  void check(SimOperation& operation);

  std::unique_ptr<GuardedBytes> buffer(std::size_t bytes);

  const SimWorldOptions options_;
  Timeline timeline_;
  std::shared_ptr<FakeDevice> device_;  // null without one
  std::vector<void*> streams_;
  std::unique_ptr<SimFabric> fabric_;
  std::unique_ptr<SimControl> control_;
  std::vector<std::string> log_, warnings_;
  std::vector<std::shared_ptr<EngineCore>> engines_;
  std::vector<bool> alive_;
  std::vector<int> paused_;
  std::deque<Group> groups_;
  SimOperations operations_;
  std::vector<SimOperations> open_;  // by rank
  std::vector<Time> calls_until_;    // by rank: when its last call of everyone_calls_soon is due
  std::size_t open_count_ = 0;
  std::size_t due_ = 0;  // calls announced, not made
  double step_share_;
  bool failed_ = false;
};

/// The choices of every world of this shape.
const ChoiceTable& choices_for(const WorldShape& shape);

/// Its parcels are short, and what they cannot hold may come to landings.
void keep_landings(SimWorldOptions& options, std::size_t count, std::size_t bytes);
/// A world whose limits, nodes and weather follow from the seed.
SimWorldOptions any_world(int ranks, std::uint64_t seed);
/// An allreduce whose type, operation and place follow from the chance given.
Request any_allreduce(std::size_t count, std::mt19937_64& chance);

/// Seeds to run a test with: fixed ones, some fresh ones (printed), FABRING_TEST_SEEDS of them if set;
/// FABRING_TEST_SEED=n runs just that one, FABRING_TEST_FIRST_SEED=n the fixed ones from there on and no fresh ones.
std::vector<std::uint64_t> seeds(std::size_t fixed, std::size_t fresh);

}  // namespace fabring::fixture

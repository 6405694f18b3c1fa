#pragma once
// Run: one call on a described machine, event by event: what simulate() makes and throws away. Plans and tiles are in
// run.cpp, messages and grants in run_messages.cpp, processors in run_processors.cpp.

#include <unordered_map>
#include <vector>

#include "simulation/cores.hpp"
#include "simulation/cutting.hpp"
#include "simulation/network.hpp"
#include "simulation/parts.hpp"
#include "simulation/priced_steps.hpp"
#include "simulation/rank_state.hpp"
#include "simulation/simulate.hpp"

namespace fabring::simulation {

constexpr std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

class Run {
 public:
  /// `machine`: as it is to vectors of this size. All of the arguments outlive this.
  Run(const Schedule& schedule, const Machine& machine, const Job& job, Cutting cutting, int simulated);
  /// Once.
  Result<Outcome> run();

 private:
  // run.cpp
  static std::vector<int> dense_nodes(const std::vector<int>& node_of, int simulated);
  void prepare(Rank number);
  /// Has what events of the next part will look at brought into the cache.
  void prefetch_next_part() const;
  void handle(const Event& event);
  void start_tiles(Rank number);
  void finish_tile(Rank number, TileState& tile);
  /// All that this step waits for inside its rank is done.
  void make_ready(Rank number, StepId id, std::uint32_t tile_index);
  /// Of a step whose count has come to 0: is there more to wait for than could be counted? Then it counts on.
  bool waits_for_more(const RankState& rank, StepId id, StepState& step);
  void step_done(Rank number, StepId id, std::uint32_t tile_index);
  Result<Outcome> outcome();

  // run_messages.cpp
  void grant(Rank number, StepId id, std::uint32_t tile);
  /// Oldest tile and earliest step first, as the engine does.
  void post_slots(Rank number);
  void send(Rank number, const Task& task);
  void grant_arrives(Rank number, StepId id, std::uint32_t tile_index);
  void head_arrives(const Event& event);
  void message_arrives(Rank number, StepId id, std::uint32_t tile);

  // run_processors.cpp
  void wake(Rank number);
  void run_on(Rank number, int core);
  void begin_work(Rank number, Nanoseconds before);
  Nanoseconds cost_of(Rank number, Task& task);
  void work_done(Rank number);

  const ClassPlan& plan(const RankState& rank) const { return schedule_.classes[at(rank.position)]; }
  const PricedStep& priced(const RankState& rank, StepId step) const { return priced_.at(rank.position, step); }
  std::size_t turn(std::uint32_t tile) const { return tile % outcome_.depth; }
  TileState& state(Rank rank, std::uint32_t tile) { return tiles_[at(rank) * outcome_.depth + turn(tile)]; }
  std::size_t place(Rank rank, std::int32_t position, std::uint32_t tile, StepId step) const {
    return first_step_[at(rank)] + turn(tile) * schedule_.classes[at(position)].plan.steps.size() + step;
  }
  StepState& state(Rank rank, std::uint32_t tile, StepId step) {
    return steps_[place(rank, ranks_[at(rank)].position, tile, step)];
  }
  bool active(Rank rank, std::uint32_t tile) {
    const TileState& found = state(rank, tile);
    return found.active && found.index == tile;
  }
  std::uint64_t bytes(const PricedStep& step, std::uint32_t tile) const { return step.bytes[cutting_.cut(tile)]; }
  bool large(const PricedStep& step, std::uint32_t tile) const { return bytes(step, tile) > longest_eager_; }
  Rank peer(const RankState& rank, const PricedStep& step) const {
    return schedule_.symmetry.moved(rank.unit_begin, step.peer);
  }

  void push(Nanoseconds time, EventKind kind, Rank rank, std::int32_t position, StepId step, std::uint32_t tile,
            Nanoseconds tail = 0) {
    parts_.push({time, tail, position, rank, tile, step, kind});
  }
  static bool has_work(const RankState& rank) { return rank.taken < rank.incoming.size() || !rank.ready.empty(); }
  /// Of the rank's node; nullptr if no rank has to wait for one.
  Cores* cores(Rank rank) { return cores_.empty() ? nullptr : &cores_[at(node_of_[at(rank)])]; }

  const Schedule& schedule_;
  const Machine& machine_;
  const Job& job_;
  bool all_;
  std::vector<int> node_of_;  // of the simulated ranks, from 0
  Network network_;
  std::vector<Cores> cores_;  // by node; none where every rank of each node has its own
  std::vector<RankState> ranks_;
  Cutting cutting_;
  Parts parts_;
  PricedSteps priced_;
  std::uint64_t longest_eager_;
  std::vector<TileState> tiles_;                                 // by rank and tile, modulo depth
  std::vector<StepState> steps_;                                 // by rank, tile and step
  std::unordered_map<const StepState*, std::uint32_t> counted_;  // of steps that wait for many, what was counted
  std::vector<std::size_t> first_step_;                          // of each rank there, and the end
  std::vector<Nanoseconds> tile_finished_;
  Nanoseconds now_ = 0;
  Outcome outcome_;
};

}  // namespace fabring::simulation

#pragma once
// Run: one call on a described machine, event by event: what simulate() makes and throws away. Plans and tiles are in
// run.cpp, messages and grants in run_messages.cpp, processors in run_processors.cpp.

#include <algorithm>
#include <utility>
#include <vector>

#include "simulation/cores.hpp"
#include "simulation/cutting.hpp"
#include "simulation/events.hpp"
#include "simulation/network.hpp"
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
  Nanoseconds lateness(Rank rank) const;
  void prepare(RankState& rank, const ClassPlan& own);
  void handle(const Event& event);
  void start_tiles(Rank number);
  void finish_tile(Rank number, TileState& tile);
  /// All that this step waits for inside its rank is done.
  void make_ready(Rank number, StepId id, std::uint32_t tile_index);
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

  const ClassPlan& plan(Rank rank) const { return schedule_.of(rank); }
  TileState& state(Rank rank, std::uint32_t tile) { return ranks_[at(rank)].tiles[tile % outcome_.depth]; }
  bool active(Rank rank, std::uint32_t tile) {
    const TileState& found = state(rank, tile);
    return found.active && found.index == tile;
  }
  bool same_node(Rank rank, Rank peer) const { return schedule_.node_of[at(rank)] == schedule_.node_of[at(peer)]; }
  std::uint64_t bytes(Rank rank, StepId step, std::uint32_t tile) const {
    return cutting_.bytes(at(schedule_.symmetry.class_of(rank)), step, tile);
  }
  bool large(std::uint64_t message) const { return message > longest_eager(machine_.tiling, outcome_.tiles); }

  void push(Nanoseconds time, EventKind kind, Rank rank, StepId step, std::uint32_t tile, Nanoseconds tail = 0) {
    events_.push({time, tail, schedule_.symmetry.class_of(rank), rank, step, tile, kind});
  }
  Rank simulated(Rank peer) const { return all_ ? peer : schedule_.symmetry.class_of(peer); }
  static bool has_work(const RankState& rank) { return rank.taken < rank.incoming.size() || !rank.ready.empty(); }

  const Schedule& schedule_;
  const Machine& machine_;
  const Job& job_;
  bool all_;
  std::vector<int> node_of_;  // of the simulated ranks, from 0
  Network network_;
  std::vector<Cores> cores_;  // by node
  std::vector<RankState> ranks_;
  Cutting cutting_;
  std::vector<Nanoseconds> tile_finished_;
  EventQueue events_;
  Nanoseconds now_ = 0;
  Outcome outcome_;
};

}  // namespace fabring::simulation

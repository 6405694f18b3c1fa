#pragma once
// Worlds and machines for the tests of the simulation.

#include <gtest/gtest.h>

#include "simulation/simulate.hpp"
#include "tests/collectives/worlds.hpp"

namespace fabring::simulation::test {

inline std::vector<int> equal_nodes(int nodes, int ranks_per_node) {
  return fabring::test::nodes_of(std::vector<int>(static_cast<std::size_t>(nodes), ranks_per_node));
}

inline PlanRequest request(Algorithm algorithm, std::vector<int> node_of) {
  PlanRequest wanted;
  wanted.algorithm = algorithm;
  wanted.node_of = std::move(node_of);
  return wanted;
}

inline Schedule schedule(Collective collective, Algorithm algorithm, std::vector<int> node_of,
                         const ScheduleOptions& options = {}) {
  PlanRequest wanted = request(algorithm, std::move(node_of));
  wanted.collective = collective;
  auto made = make_schedule(wanted, options);
  EXPECT_TRUE(made.has_value()) << made.error().message();
  return std::move(*made);
}
inline Schedule schedule(Algorithm algorithm, std::vector<int> node_of, const ScheduleOptions& options = {}) {
  return schedule(Collective::allreduce, algorithm, std::move(node_of), options);
}

inline Outcome outcome(const Schedule& plans, const Machine& machine, const Job& job) {
  auto result = simulate(plans, machine, job);
  EXPECT_TRUE(result.has_value()) << result.error().message();
  return result.value_or(Outcome{});
}

/// Hosts on links of this name whose ranks share memory, as a job finds them where nobody names a machine.
inline Machine hosts_that_share_memory(std::string_view links) {
  Machine machine = *find_machine(links);
  machine.name += ", shared memory inside";
  machine.inside = find_machine("shared-memory")->inside;
  return machine;
}

/// Only bytes cost anything: 1 GB/s between any two ranks, each with a card of its own, one tile.
inline Machine bytes_only() {
  Machine machine;
  machine.name = "bytes only";
  machine.nics = 64;
  machine.nic_bytes_per_second = 1'000'000'000;
  machine.inside.lane_bytes_per_second = machine.between.lane_bytes_per_second = 1'000'000'000;
  machine.tiling = {std::size_t{1} << 40, std::size_t{1} << 40, 1};
  return machine;
}

/// Only messages cost anything: 1000 ns each from rank to rank.
inline Machine latency_only() {
  Machine machine;
  machine.name = "latency only";
  machine.inside.latency_ns = machine.between.latency_ns = 1000;
  machine.tiling = {std::size_t{1} << 40, std::size_t{1} << 40, 1};
  return machine;
}

}  // namespace fabring::simulation::test

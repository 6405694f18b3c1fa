#pragma once
// SimRanks: one operation on every rank of a simulated world, over buffers of the test's own.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/engine/call/make_call.hpp"
#include "tests/support/sim_world.hpp"

namespace fabring::fixture {

struct SimRanks {
  explicit SimRanks(const SimWorldOptions& options) : world(options), ranks(options.ranks) {}

  /// `make(rank)` gives the rank's operation. Checks that all end well.
  void operator()(const std::function<Operation(Rank)>& make) {
    for (const auto& work : ended(make)) ASSERT_TRUE(work->status().ok()) << work->status().to_string();
  }

  /// The same, however they end.
  std::vector<std::shared_ptr<Execution>> ended(const std::function<Operation(Rank)>& make) {
    std::vector<std::shared_ptr<Execution>> works;
    for (Rank rank = 0; rank < ranks; ++rank) {
      EngineCore& engine = world.engine(rank);
      const auto core = world.communicator(rank);
      auto call = make_call(make(rank), *core, choices_for(core->shape()), engine.config(), engine.device());
      EXPECT_TRUE(call) << call.error().to_string();
      if (!call) return {};
      if (algorithm) call->algorithm = *algorithm;
      works.push_back(engine.submit(core, std::move(*call), false));
    }
    const auto all_done = [&] {
      return std::all_of(works.begin(), works.end(), [](const auto& work) { return work->done(); });
    };
    EXPECT_TRUE(world.run_until(all_done, std::chrono::seconds(1000))) << world.replay();
    return works;
  }

  SimWorld world;
  int ranks;
  std::optional<Algorithm> algorithm;  ///< instead of the chosen one
};

/// A world whose limits follow from the seed and whose algorithms are chosen.
inline SimWorldOptions as_chosen(int ranks, std::uint64_t seed) {
  SimWorldOptions options = any_world(ranks, seed);
  options.algorithm = std::nullopt;
  return options;
}

}  // namespace fabring::fixture

#pragma once
// DeviceWorld: ranks in virtual time, each with one buffer of floats on a fake GPU.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "runtime/engine/call/make_call.hpp"
#include "tests/support/sim_world.hpp"

namespace fabring::fixture {

inline SimWorldOptions on_device(int ranks, std::uint64_t seed) {
  SimWorldOptions options{.ranks = ranks, .seed = seed};
  options.device = true;
  return options;
}

// An allreduce of each rank over one buffer of its own on the device, which the test writes and reads.
class DeviceWorld {
 public:
  static constexpr std::size_t count = 500;
  explicit DeviceWorld(int ranks, std::uint64_t seed = 5) : DeviceWorld(on_device(ranks, seed)) {}
  explicit DeviceWorld(const SimWorldOptions& options) : world(options) {
    for (Rank rank = 0; rank < options.ranks; ++rank)
      buffers.push_back(*world.device().allocate(0, count * sizeof(float)));
  }
  float* see(Rank rank) {
    return reinterpret_cast<float*>(world.device().see(buffers[static_cast<std::size_t>(rank)]));
  }
  void fill_late(Rank rank) {
    world.device().enqueue(world.stream(rank), [this, rank] { std::fill_n(see(rank), count, float(rank + 1)); });
  }
  Operation operation(Rank rank) {
    std::byte* const buffer = buffers[static_cast<std::size_t>(rank)];
    Operation made = Operation::allreduce(buffer, buffer, count, DataType::float32, ReduceOp::sum);
    made.stream = world.stream(rank);
    return made;
  }
  Result<Call> make(Rank rank, const Operation& operation) {
    const auto core = world.communicator(rank);
    return make_call(operation, *core, choices_for(core->shape()), {}, &world.device());
  }
  std::shared_ptr<Execution> call(Rank rank) {
    auto made = make(rank, operation(rank));
    EXPECT_TRUE(made.has_value()) << made.error().to_string();
    works.push_back(world.engine(rank).submit(world.communicator(rank), std::move(*made), false));
    return works.back();
  }
  bool all_done() const {
    return std::all_of(works.begin(), works.end(), [](const auto& work) { return work->done(); });
  }
  bool run(Time limit = std::chrono::seconds(10)) {
    return world.run_until([this] { return all_done(); }, limit);
  }

  SimWorld world;
  std::vector<std::byte*> buffers;
  std::vector<std::shared_ptr<Execution>> works;
};

}  // namespace fabring::fixture

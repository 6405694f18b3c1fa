#pragma once
// SharingRanks: ranks in virtual time that may read each other's memory on a fake GPU, one algorithm for all they call.

#include <gtest/gtest.h>

#include <memory>

#include "tests/runtime/engine/device_world.hpp"

namespace fabring::fixture {

inline SimWorldOptions sharing(int ranks, std::uint64_t seed, Algorithm algorithm = Algorithm::direct_two_shot) {
  SimWorldOptions options{.ranks = ranks, .seed = seed, .algorithm = algorithm};
  options.segment_bytes = 4096;
  options.device = true;
  options.weather.tickets = true;
  options.weather.refusals = 0;
  options.weather.queue = 64;
  return options;
}

class SharingRanks : public DeviceWorld {
 public:
  explicit SharingRanks(const SimWorldOptions& options) : DeviceWorld(options), algorithm_(*options.algorithm) {}
  std::shared_ptr<Execution> call(Rank rank, const Operation& what) {
    auto made = make(rank, what);
    EXPECT_TRUE(made.has_value()) << made.error().to_string();
    made->algorithm = algorithm_;
    works.push_back(world.engine(rank).submit(world.communicator(rank), std::move(*made), false));
    return works.back();
  }
  void everyone_calls() {
    for (Rank rank = 0; rank < static_cast<Rank>(buffers.size()); ++rank) {
      fill_late(rank);
      call(rank, operation(rank));
    }
  }

 private:
  const Algorithm algorithm_;
};

}  // namespace fabring::fixture

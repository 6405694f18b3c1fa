// What a probed machine says of allreduce by size: it is what formulas left over, and no more.
#include "collectives/cost/calibration.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "collectives/cost/fit.hpp"
#include "collectives/cost/predict.hpp"

namespace fabring {
namespace {

constexpr WorldShape two{2, 1, 2, 2};

/// Of every size from 8 bytes to 64 MiB by fours: `percent` of the price of a ring, and a slower algorithm beside it.
template <class Percent>
std::vector<Measured> measured(const Machine& machine, Percent percent) {
  std::vector<Measured> times;
  for (std::uint64_t bytes = 8; bytes <= (std::uint64_t{64} << 20); bytes *= 4) {
    const Nanoseconds price = *predict(Collective::allreduce, Algorithm::ring, bytes, two, machine);
    const Nanoseconds time = price * percent(bytes) / 100;
    times.push_back({Collective::allreduce, Algorithm::ring, bytes, two, time});
    times.push_back({Collective::allreduce, Algorithm::direct_two_shot, bytes, two, time * 5});
    times.push_back({Collective::broadcast, Algorithm::binomial, bytes, two, 1});
  }
  return times;
}

TEST(Calibration, WithoutTimesNothingIsSaid) {
  const Machine machine = *find_machine("loopback-tcp");
  EXPECT_EQ(calibrate(machine, {}), Calibration{});
  for (const std::uint64_t bytes : {0ull, 1ull, 4096ull, 1ull << 40, ~0ull}) EXPECT_EQ(Calibration{}.at(bytes), 100u);
}

TEST(Calibration, TimesAsPricedLeaveNothingOver) {
  const Machine machine = *find_machine("loopback-tcp");
  EXPECT_EQ(calibrate(machine, measured(machine, [](std::uint64_t) { return 100; })), Calibration{});
}

TEST(Calibration, WhatAllSizesTakeIsFoundForEach) {
  Machine machine = *find_machine("loopback-tcp");
  const auto times = measured(machine, [](std::uint64_t bytes) { return bytes <= 65536 ? 80 : 130; });
  EXPECT_LT(accuracy_of(machine, times).within_20_percent, times.size() / 3);
  machine.of_allreduce = calibrate(machine, times);
  EXPECT_TRUE(check_machine(machine).ok());
  for (const Measured& each : times) {
    if (each.algorithm != Algorithm::ring) continue;
    const double price = static_cast<double>(*predict(each.collective, each.algorithm, each.bytes, two, machine));
    EXPECT_NEAR(price / static_cast<double>(each.time_ns), 1, 0.2) << each.bytes;
  }
}

TEST(Calibration, OtherCollectivesKeepTheirPricesAndTheOrderOfAlgorithmsStays) {
  const Machine before = *find_machine("loopback-tcp");
  Machine after = before;
  after.of_allreduce = calibrate(before, measured(before, [](std::uint64_t) { return 170; }));
  const auto price = [&](Collective collective, Algorithm algorithm, std::uint64_t bytes, const Machine& machine) {
    return *predict(collective, algorithm, bytes, two, machine);
  };
  for (const std::uint64_t bytes : {8ull, 1000ull, 1ull << 20}) {
    EXPECT_EQ(price(Collective::broadcast, Algorithm::binomial, bytes, before),
              price(Collective::broadcast, Algorithm::binomial, bytes, after));
    const bool ring_first = price(Collective::allreduce, Algorithm::ring, bytes, before) <
                            price(Collective::allreduce, Algorithm::direct_two_shot, bytes, before);
    EXPECT_EQ(ring_first, price(Collective::allreduce, Algorithm::ring, bytes, after) <
                              price(Collective::allreduce, Algorithm::direct_two_shot, bytes, after));
  }
}

TEST(Calibration, OneTimeThatIsFarOffIsBounded) {
  const Machine machine = *find_machine("loopback-tcp");
  const auto wild = calibrate(machine, measured(machine, [](std::uint64_t bytes) { return bytes == 8 ? 100'000 : 1; }));
  EXPECT_LE(*std::ranges::max_element(wild.percent), most_calibration);
  EXPECT_GE(*std::ranges::min_element(wild.percent), least_calibration);
}

TEST(Calibration, InBetweenIsInBetween) {
  Calibration calibration;
  calibration.percent = {60, 80, 100, 120, 140, 160, 180, 190, 200};
  for (std::size_t i = 0; i < calibrated_sizes.size(); ++i)
    EXPECT_EQ(calibration.at(calibrated_sizes[i]), calibration.percent[i]);
  EXPECT_EQ(calibration.at(1), 60u);
  EXPECT_EQ(calibration.at(~0ull), 200u);
  EXPECT_EQ(calibration.at(1 << 10), 90u) << "halfway between 256 B and 4 KiB, by the logarithm";
  std::uint32_t last = 0;
  for (std::uint64_t bytes = 1; bytes < (std::uint64_t{1} << 30); bytes += 1 + bytes / 7) {
    EXPECT_GE(calibration.at(bytes), last) << bytes;
    last = calibration.at(bytes);
  }
}

}  // namespace
}  // namespace fabring

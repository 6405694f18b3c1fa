// A machine fitted to times: that of another machine is found again, as far as prices can tell.
#include "collectives/cost/fit.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "collectives/cost/predict.hpp"

namespace fabring {
namespace {

constexpr WorldShape four_on_two_cores{4, 1, 4, 4};

std::vector<Measured> times_on(const Machine& machine, const WorldShape& shape, std::size_t least, std::size_t factor) {
  std::vector<Measured> times;
  for (std::size_t bytes = least; bytes <= (std::size_t{16} << 20); bytes *= factor) {
    for (const Algorithm algorithm : {Algorithm::ring, Algorithm::recursive_doubling, Algorithm::direct_two_shot})
      if (const auto price = predict(Collective::allreduce, algorithm, bytes, shape, machine))
        times.push_back({Collective::allreduce, algorithm, bytes, shape, *price});
    if (const auto price = predict(Collective::broadcast, Algorithm::binomial, bytes, shape, machine))
      times.push_back({Collective::broadcast, Algorithm::binomial, bytes, shape, *price});
  }
  return times;
}

/// Slower in everything, and not alike.
Machine other_than(Machine machine) {
  machine.call_ns *= 2;
  machine.switch_ns *= 3;
  machine.inside.latency_ns *= 2;
  machine.inside.send_ns *= 3;
  machine.inside.copy_bytes_per_second /= 3;
  machine.reduce_bytes_per_second /= 2;
  return machine;
}

TEST(Fit, FindsTheMachineBehindTheTimes) {
  Machine start = *find_machine("loopback-tcp");
  start.cores = 2;
  const Machine hidden = other_than(start);
  const auto seen = times_on(hidden, four_on_two_cores, 8, 8);
  EXPECT_GT(accuracy_of(start, seen).median, 1.5);
  const Machine fitted = fit_machine(start, seen);
  // Also at sizes that it has not seen.
  const Accuracy accuracy = accuracy_of(fitted, times_on(hidden, four_on_two_cores, 100, 3));
  EXPECT_EQ(accuracy.within_20_percent, accuracy.priced);
  EXPECT_LT(accuracy.median, 1.06);
  EXPECT_TRUE(check_machine(fitted).ok());
}

TEST(Fit, KeepsWhatNothingTellsOf) {
  const Machine start = *find_machine("100g");
  EXPECT_EQ(fit_machine(start, {}).inside, start.inside);
  const Machine hidden = other_than(start);
  const Machine fitted = fit_machine(start, times_on(hidden, four_on_two_cores, 8, 8));
  EXPECT_EQ(fitted.between, start.between);  // all ranks are on one node
  EXPECT_EQ(fitted.nic_bytes_per_second, start.nic_bytes_per_second);
  EXPECT_EQ(fitted.inside.lane_bytes_per_second, 0u);  // no limit stays none
  EXPECT_EQ(fitted.cores, start.cores);
}

TEST(Fit, LeavesWhatItMayNotChange) {
  constexpr WorldShape two_hosts{4, 2, 2, 2};
  const Machine start = *find_machine("10g");
  Machine hidden = start;
  hidden.nic_bytes_per_second /= 10;
  hidden.between.latency_ns *= 4;
  const auto seen = times_on(hidden, two_hosts, 8, 8);
  EXPECT_LT(fit_machine(start, seen).nic_bytes_per_second, start.nic_bytes_per_second / 2);
  EXPECT_EQ(fit_machine(start, seen, FitOf::all_but_links).nic_bytes_per_second, start.nic_bytes_per_second);
  const Machine of_messages = fit_machine(start, seen, FitOf::messages);
  EXPECT_EQ(of_messages.nic_bytes_per_second, start.nic_bytes_per_second);
  EXPECT_EQ(of_messages.reduce_bytes_per_second, start.reduce_bytes_per_second);
  EXPECT_GT(of_messages.between.latency_ns, start.between.latency_ns);
}

TEST(Fit, IsNotPulledAlongByTimesThatWereDisturbed) {
  Machine start = *find_machine("loopback-tcp");
  start.cores = 2;
  const Machine hidden = other_than(start);
  const auto exact = times_on(hidden, four_on_two_cores, 8, 8);
  auto seen = exact;
  for (std::size_t i = 3; i < seen.size(); i += 8) seen[i].time_ns *= 30;  // another process had the core
  const Accuracy accuracy = accuracy_of(fit_machine(start, seen), exact);
  EXPECT_GE(accuracy.within_20_percent * 10, accuracy.priced * 9) << accuracy.median;
}

TEST(Fit, ComesClosestToWhatIsFastest) {
  const Machine start = *find_machine("loopback-tcp");
  constexpr std::size_t bytes = std::size_t{1} << 20;
  constexpr WorldShape two{2, 1, 2, 2};
  const auto price = [&](Algorithm algorithm, const Machine& machine) {
    return *predict(Collective::allreduce, algorithm, bytes, two, machine);
  };
  // Of two times of which no machine has both: the shorter one is the one that will be chosen.
  const Nanoseconds by_ring = price(Algorithm::ring, start) * 6 / 10;
  std::vector<Measured> seen{{Collective::allreduce, Algorithm::ring, bytes, two, by_ring},
                             {Collective::allreduce, Algorithm::halving_doubling, bytes, two, by_ring * 3 / 2}};
  ASSERT_EQ(price(Algorithm::ring, start), price(Algorithm::halving_doubling, start));
  const Nanoseconds fitted = price(Algorithm::ring, fit_machine(start, seen));
  EXPECT_LT(fitted - by_ring, (by_ring * 3 / 2 - fitted) / 2) << fitted << " for " << by_ring;
}

TEST(AtSize, IsSlowerWhereRanksShareCores) {
  Machine machine = *find_machine("shared-memory");
  machine.cores = 4;
  machine.shared_core_percent = 80;
  EXPECT_EQ(at_size(machine, 1024, 4).reduce_bytes_per_second, machine.reduce_bytes_per_second);
  const Machine shared = at_size(machine, 1024, 5);
  EXPECT_EQ(shared.reduce_bytes_per_second, machine.reduce_bytes_per_second * 80 / 100);
  EXPECT_EQ(shared.inside.copy_bytes_per_second, machine.inside.copy_bytes_per_second * 80 / 100);
  EXPECT_EQ(shared.inside.send_ns, machine.inside.send_ns);
  machine.cold_percent = 50;
  EXPECT_EQ(at_size(machine, 4 * machine.cache_bytes, 5).reduce_bytes_per_second,
            machine.reduce_bytes_per_second * 40 / 100)
      << "and caches do not hold the vectors";
  machine.cores = 0;
  EXPECT_EQ(at_size(machine, 1024, 5).reduce_bytes_per_second, machine.reduce_bytes_per_second) << "a core each";
}

TEST(Fit, SaysHowFarPricesAreOff) {
  const Machine machine = *find_machine("loopback-tcp");
  auto times = times_on(machine, four_on_two_cores, 8, 100);
  const Accuracy exact = accuracy_of(machine, times);
  EXPECT_EQ(exact.priced, times.size());
  EXPECT_EQ(exact.within_20_percent, times.size());
  EXPECT_DOUBLE_EQ(exact.worst, 1.0);
  times.front().time_ns *= 2;
  times.push_back({Collective::allreduce, Algorithm::pairwise, 8, four_on_two_cores, 1000});  // there is no such thing
  const Accuracy one_off = accuracy_of(machine, times);
  EXPECT_EQ(one_off.priced, times.size() - 1);
  EXPECT_EQ(one_off.within_20_percent, times.size() - 2);
  EXPECT_NEAR(one_off.worst, 2.0, 0.01);
}

}  // namespace
}  // namespace fabring

#include "runtime/startup/machine_probe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

#include "collectives/cost/fit.hpp"
#include "fabring/communicator.hpp"
#include "runtime/engine/engine_core.hpp"
#include "runtime/startup/link_probe.hpp"
#include "runtime/startup/machine_file.hpp"

namespace fabring {
namespace {

using namespace std::chrono_literals;
using ProbeClock = std::chrono::steady_clock;

// After it, nothing further is begun.
constexpr std::chrono::milliseconds budget_of(ProbeScope scope) { return scope.whole ? 250ms : 50ms; }
constexpr auto longest_operation = 30ms;
constexpr auto small_round = 1ms;  // of operations of few bytes, as far as 16 of them fill it
constexpr int most_ranks_of_slow_ones = 32;
constexpr std::size_t longest_bytes = std::size_t{16} << 20;

struct Sample {
  Collective collective;
  Algorithm algorithm;
  std::size_t bytes;
};

/// Those that tell most come first; what a slow network has no time for is left to the machine probing began with.
std::vector<Sample> samples(ProbeScope scope) {
  std::vector<Sample> list;
  const auto of_all = [&](std::size_t bytes, std::initializer_list<Algorithm> algorithms) {
    for (const Algorithm algorithm : algorithms) list.push_back({Collective::allreduce, algorithm, bytes});
  };
  using enum Algorithm;
  if (!scope.whole) {  // what bytes cost is known from the links
    of_all(8, {recursive_doubling, direct_one_shot, hierarchical});
    of_all(std::size_t{1} << 10, {recursive_doubling, direct_two_shot, hierarchical});
    of_all(8, {ring});
    return list;
  }
  of_all(8, {recursive_doubling, ring, direct_one_shot});
  of_all(std::size_t{64} << 10, {recursive_doubling, direct_two_shot, ring, hierarchical});
  of_all(std::size_t{1} << 20, {ring, recursive_doubling, direct_two_shot, hierarchical});
  list.push_back({Collective::broadcast, binomial, std::size_t{1} << 20});
  of_all(std::size_t{4} << 10, {recursive_doubling, direct_two_shot});
  of_all(std::size_t{4} << 20, {ring, recursive_doubling});
  of_all(std::size_t{256} << 10, {ring, recursive_doubling, direct_two_shot});
  list.push_back({Collective::broadcast, chain, std::size_t{4} << 20});
  of_all(longest_bytes, {ring});
  return list;
}

class Probe {
 public:
  Probe(EngineCore& core, std::size_t longest) : core_(core), world_(core.world()), data_(longest) {}

  /// The median of a few rounds, each of as many operations as make waiting for the others' start a small part of it.
  Result<Nanoseconds> time(const Sample& sample) {
    core_.take_algorithm(*core_.world(), Override{.collective = sample.collective, .algorithm = sample.algorithm});
    const bool small = sample.bytes <= (std::size_t{64} << 10);
    const int rounds = small ? 5 : 3;
    FABRING_TRY(run(sample, 1));  // connections, caches, plans
    std::uint8_t operations = 1;
    if (small) {
      const auto start = ProbeClock::now();
      FABRING_TRY(run(sample, 3));
      const auto each = (ProbeClock::now() - start) / 3;
      operations = static_cast<std::uint8_t>(std::clamp<std::int64_t>(small_round / std::max(each, 1ns), 1, 16));
      FABRING_TRY(tell(&operations, 1));
    }
    std::vector<Nanoseconds> times;
    for (int round = 0; round < rounds; ++round) {
      const auto start = ProbeClock::now();
      FABRING_TRY(run(sample, operations));
      times.push_back((ProbeClock::now() - start).count() / operations);
    }
    std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
    return std::max<Nanoseconds>(times[static_cast<std::size_t>(rounds / 2)], 1);
  }

  /// Rank 0's word, on every rank.
  Status tell(void* word, std::size_t bytes) { return world_.broadcast(word, bytes, DataType::uint8, 0); }
  Rank rank() const { return world_.rank(); }

 private:
  Status run(const Sample& sample, int operations) {
    const std::size_t count = sample.bytes / sizeof(float);
    for (int i = 0; i < operations; ++i) {
      const Status status = sample.collective == Collective::broadcast
                                ? world_.broadcast(data_.data(), count, DataType::float32, 0)
                                : world_.allreduce(data_.data(), data_.data(), count, DataType::float32, ReduceOp::sum);
      if (!status.ok()) return status;
    }
    return {};
  }

  EngineCore& core_;
  Communicator world_;
  std::vector<std::byte> data_;  // zeros, which sums leave as they are
};

}  // namespace

Result<std::string> probe_machine(EngineCore& core, ProbeScope scope) {
  const auto start = ProbeClock::now();
  const WorldShape shape = core.world()->shape();
  std::string of_links;
  if (shape.nodes > 1 && scope.links) {
    const auto links = probe_links(core);
    if (!links) return links.error();
    core.take_machine(with_links(core.pricing_machine(), *links));
    of_links = fmt::format(" with links of {:.3g} Gbit/s", static_cast<double>(links->node_bytes_per_second) * 8e-9);
  }

  const auto begun = ProbeClock::now();
  const std::vector<Sample> list = samples(scope);
  Probe probe(core, std::ranges::max(list, {}, &Sample::bytes).bytes);
  std::vector<Measured> measured;
  double slowest = 0;  // ns for each byte, of what was long enough to tell
  for (const Sample& sample : list) {
    if (sample.algorithm == Algorithm::hierarchical && (shape.nodes == 1 || shape.nodes == shape.ranks)) continue;
    // In a large world it is far from the choice, and slow.
    if (!scope.whole && shape.ranks > most_ranks_of_slow_ones &&
        (sample.algorithm == Algorithm::ring || sample.algorithm == Algorithm::direct_one_shot))
      continue;
    const bool short_enough =
        slowest * static_cast<double>(sample.bytes) < std::chrono::nanoseconds(longest_operation).count();
    // One at least: a machine of which nothing is known was not probed.
    std::uint8_t goes_on = measured.empty() || (short_enough && ProbeClock::now() - begun < budget_of(scope)) ? 1 : 0;
    FABRING_TRY(probe.tell(&goes_on, 1));
    if (goes_on == 0) continue;
    const auto time = probe.time(sample);
    if (!time) return time.error();
    measured.push_back({sample.collective, sample.algorithm, sample.bytes, shape, *time});
    if (sample.bytes >= (std::size_t{64} << 10))
      slowest = std::max(slowest, static_cast<double>(*time) / static_cast<double>(sample.bytes));
  }

  std::string text;
  if (probe.rank() == 0) {
    Machine fitted = fit_machine(core.pricing_machine(), measured,
                                 !scope.whole      ? FitOf::messages
                                 : shape.nodes > 1 ? FitOf::all_but_links
                                                   : FitOf::everything);
    fitted.name = "this machine, probed";
    text = machine_to_json(fitted);
  }
  text.resize(most_machine_bytes, ' ');
  FABRING_TRY(probe.tell(text.data(), text.size()));
  auto machine = machine_from_json(text);
  if (!machine) return machine.error().with_prefix("the machine that rank 0 probed: ");
  core.take_machine(*machine);
  const Accuracy accuracy = accuracy_of(core.pricing_machine(), measured);
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(ProbeClock::now() - start);
  return fmt::format(
      "algorithms: priced for this machine{}, probed in {} ms: {} of {} times within 20% of what was measured "
      "here, the worst {:.2f} times off",
      of_links, took.count(), accuracy.within_20_percent, accuracy.priced, accuracy.worst);
}

}  // namespace fabring

#include "runtime/startup/machine_probe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

#include "collectives/choice/table.hpp"
#include "collectives/cost/calibration.hpp"
#include "collectives/cost/fit.hpp"
#include "fabring/communicator.hpp"
#include "runtime/engine/engine_core.hpp"
#include "runtime/startup/link_probe.hpp"
#include "runtime/startup/machine_file.hpp"
#include "runtime/startup/probe_samples.hpp"

namespace fabring {
namespace {

using namespace std::chrono_literals;
using ProbeClock = std::chrono::steady_clock;

// After it, nothing further is begun; and half of it for what will be chosen.
constexpr std::chrono::milliseconds budget_of(ProbeScope scope) { return scope.whole ? 250ms : 50ms; }
constexpr auto longest_operation = 30ms;
constexpr auto round_time = 1ms;  // as far as `most_operations` fill it
constexpr std::int64_t most_operations = 200;
constexpr std::size_t most_in_rounds = std::size_t{1} << 20;  // bytes; longer operations are timed one by one
constexpr int most_ranks_of_slow_ones = 32;

class Probe {
 public:
  Probe(EngineCore& core, ProbeScope scope)
      : core_(core),
        world_(core.world()),
        shape_(core.world()->shape()),
        scope_(scope),
        longest_(longest_probed(scope, shape_.most)),
        data_(longest_) {}

  /// Those of the list (probe_samples.hpp).
  Status listed() {
    double slowest = 0;  // ns for each byte, of what was long enough to tell
    for (const ProbeSample& sample : probe_samples(scope_)) {
      if (sample.bytes > longest_) continue;
      if (sample.algorithm == Algorithm::hierarchical && (shape_.nodes == 1 || shape_.nodes == shape_.ranks)) continue;
      // In a large world it is far from the choice, and slow.
      if (!scope_.whole && shape_.ranks > most_ranks_of_slow_ones &&
          (sample.algorithm == Algorithm::ring || sample.algorithm == Algorithm::direct_one_shot))
        continue;
      const bool short_enough =
          slowest * static_cast<double>(sample.bytes) < std::chrono::nanoseconds(longest_operation).count();
      // One at least: a machine of which nothing is known was not probed.
      std::uint8_t goes_on = measured_.empty() || (short_enough && elapsed() < budget_of(scope_)) ? 1 : 0;
      FABRING_TRY(tell(&goes_on, 1));
      if (goes_on == 0) continue;
      FABRING_TRY(measure(sample));
      const Measured& last = measured_.back();
      if (sample.bytes >= (std::size_t{64} << 10))
        slowest = std::max(slowest, static_cast<double>(last.time_ns) / static_cast<double>(sample.bytes));
    }
    return {};
  }

  /// What allreduce would take by what is known so far, as far as it is not among the measured yet.
  Status chosen() {
    const auto end = elapsed() + budget_of(scope_) / 2;
    for (const std::size_t bytes : chosen_sizes()) {
      if (bytes > longest_) continue;
      struct Word {
        std::uint8_t goes_on = 0;
        Algorithm algorithm = Algorithm::ring;
      } word;
      if (rank() == 0 && elapsed() < end) {
        const Candidate best = candidates(Collective::allreduce, bytes, shape_, fitted()).front();
        const bool short_enough =
            best.predicted && *best.predicted < std::chrono::nanoseconds(longest_operation).count();
        word = {short_enough && !knows(best.algorithm, bytes), best.algorithm};
      }
      FABRING_TRY(tell(&word, sizeof word));
      if (!has_algorithm(Collective::allreduce, word.algorithm))
        return {ErrorCode::mismatch,
                "rank 0 asked for an algorithm that allreduce does not have, to probe the machine: "
                "do all ranks run the same version of Fabring?"};
      if (word.goes_on != 0) FABRING_TRY(measure({Collective::allreduce, word.algorithm, bytes}));
    }
    return {};
  }

  const std::vector<Measured>& measured() const { return measured_; }
  Machine fitted() const {
    return fit_machine(core_.pricing_machine(), measured_,
                       !scope_.whole      ? FitOf::messages
                       : shape_.nodes > 1 ? FitOf::all_but_links
                                          : FitOf::everything);
  }

  /// Rank 0's word, on every rank.
  Status tell(void* word, std::size_t bytes) { return world_.broadcast(word, bytes, DataType::uint8, 0); }
  Rank rank() const { return world_.rank(); }

 private:
  ProbeClock::duration elapsed() const { return ProbeClock::now() - begun_; }
  bool knows(Algorithm algorithm, std::size_t bytes) const {
    return std::ranges::any_of(measured_, [&](const Measured& each) {
      return each.collective == Collective::allreduce && each.algorithm == algorithm && each.bytes == bytes;
    });
  }

  Status measure(const ProbeSample& sample) {
    const auto ns = time(sample);
    if (!ns) return ns.error();
    measured_.push_back({sample.collective, sample.algorithm, sample.bytes, shape_, *ns});
    return {};
  }

  /// The median of a few rounds, each of as many operations as make waiting for the others' start a small part of it.
  Result<Nanoseconds> time(const ProbeSample& sample) {
    core_.take_algorithm(*core_.world(), Override{.collective = sample.collective, .algorithm = sample.algorithm});
    const int rounds = sample.bytes <= (std::size_t{64} << 10) ? 5 : 3;
    FABRING_TRY(run(sample, 1));  // connections, caches, plans
    std::uint8_t operations = 1;
    if (sample.bytes <= most_in_rounds) {
      const auto start = ProbeClock::now();
      FABRING_TRY(run(sample, 3));
      const auto each = (ProbeClock::now() - start) / 3;
      operations =
          static_cast<std::uint8_t>(std::clamp<std::int64_t>(round_time / std::max(each, 1ns), 1, most_operations));
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

  // Of integers: neither FABRING_WIRE_TYPE nor FABRING_REPRODUCIBLE makes it another operation than was asked for.
  Status run(const ProbeSample& sample, int operations) {
    const std::size_t count = sample.bytes / sizeof(std::int32_t);
    for (int i = 0; i < operations; ++i) {
      Status status = sample.collective == Collective::broadcast
                          ? world_.broadcast(data_.data(), count, DataType::int32, 0)
                          : world_.allreduce(data_.data(), data_.data(), count, DataType::int32, ReduceOp::sum);
      if (!status.ok()) return status;
    }
    return {};
  }

  EngineCore& core_;
  Communicator world_;
  WorldShape shape_;
  ProbeScope scope_;
  std::size_t longest_;
  std::vector<std::byte> data_;  // zeros, which sums leave as they are
  ProbeClock::time_point begun_ = ProbeClock::now();
  std::vector<Measured> measured_;
};

}  // namespace

std::string warning_of(const Accuracy& accuracy) {
  constexpr double too_far = 5;
  if (accuracy.within_20_percent * 2 >= accuracy.priced && accuracy.worst <= too_far) return "";
  return fmt::format(
      "FABRING_MACHINE=probe found prices that do not fit: {} of {} times within 20% of what was measured, the worst "
      "{:.2f} times off, so algorithms may be chosen that are slow here. Something else was probably running: start "
      "again on quiet hosts, or name a machine or a file that describes one (fabring simulate --show-machine writes "
      "such a file)",
      accuracy.within_20_percent, accuracy.priced, accuracy.worst);
}

Result<ProbeOutcome> probe_machine(EngineCore& core, ProbeScope scope) {
  const auto start = ProbeClock::now();
  const WorldShape shape = core.world()->shape();
  std::string of_links;
  if (shape.nodes > 1 && scope.links) {
    const auto links = probe_links(core);
    if (!links) return links.error();
    core.take_machine(with_links(core.pricing_machine(), *links));
    of_links = fmt::format(" with links of {:.3g} Gbit/s", static_cast<double>(links->node_bytes_per_second) * 8e-9);
  }

  Probe probe(core, scope);
  FABRING_TRY(probe.listed());
  if (scope.whole) FABRING_TRY(probe.chosen());

  std::string text;
  if (probe.rank() == 0) {
    Machine fitted = probe.fitted();
    if (scope.whole) fitted.of_allreduce = calibrate(fitted, probe.measured());
    fitted.name = "this machine, probed";
    text = machine_to_json(fitted);
  }
  text.resize(most_machine_bytes, ' ');
  FABRING_TRY(probe.tell(text.data(), text.size()));
  auto machine = machine_from_json(text);
  if (!machine) return machine.error().with_prefix("the machine that rank 0 probed: ");
  core.take_machine(*machine);
  const Accuracy accuracy = accuracy_of(core.pricing_machine(), probe.measured());
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(ProbeClock::now() - start);
  const double latency_us = static_cast<double>(core.pricing_machine().between.latency_ns) / 1000;
  const std::string deeper =
      core.waits_for_links() ? fmt::format("; {} tiles of what is reduced under way, as hosts answer after {:.3g} us",
                                           depth_over_slow_answers, latency_us)
                             : "";
  std::string line = fmt::format(
      "algorithms: priced for this machine{}, probed in {} ms: {} of {} times within 20% of what was measured "
      "here, the worst {:.2f} times off{}",
      of_links, took.count(), accuracy.within_20_percent, accuracy.priced, accuracy.worst, deeper);
  return ProbeOutcome{std::move(line), scope.whole ? warning_of(accuracy) : ""};
}

}  // namespace fabring

#include "collectives/cost/fit.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "collectives/cost/predict.hpp"

namespace fabring {
namespace {

/// Leaving the start by a factor of e costs as much as one price that is off by a tenth.
constexpr double inertia = 0.01;
constexpr double steps[] = {2.0, 1.4, 1.15, 1.05};
/// Up to about this much (a logarithm) misses count by their square, above it by less and less: one time that was
/// disturbed must not pull the prices of all others along.
constexpr double usual_miss = 0.3;
/// What was measured as the fastest of its size is what will be chosen, so its price matters most.
constexpr double weight_of_fastest = 3;

/// Logarithm of price / measured; none: it has no price.
std::optional<double> miss_of(const Machine& machine, const Measured& measured) {
  const auto price = predict(measured.collective, measured.algorithm, measured.bytes, measured.shape, machine);
  if (!price || *price <= 0 || measured.time_ns <= 0) return std::nullopt;
  return std::log(static_cast<double>(*price) / static_cast<double>(measured.time_ns));
}

/// One number of the machine, whatever its type, that may be multiplied; or two that prices mostly add up, so that
/// times cannot tell them apart.
struct Knob {
  Nanoseconds* time = nullptr;
  std::uint64_t* rate = nullptr;
  std::uint32_t* percent = nullptr;
  double start = 0;
  Nanoseconds* likewise = nullptr;
  double its_share = 0;  ///< of `time`

  double value() const {
    if (percent != nullptr) return *percent;
    return time != nullptr ? static_cast<double>(*time) : static_cast<double>(*rate);
  }
  void set(double value) const {
    constexpr double most_ns = 1e9, least_rate = 1e6, most_rate = 1e14, least_percent = 10;
    if (time != nullptr) *time = static_cast<Nanoseconds>(std::clamp(value, 1.0, most_ns));
    if (likewise != nullptr) *likewise = static_cast<Nanoseconds>(std::clamp(value * its_share, 1.0, most_ns));
    if (rate != nullptr) *rate = static_cast<std::uint64_t>(std::clamp(value, least_rate, most_rate));
    if (percent != nullptr) *percent = static_cast<std::uint32_t>(std::clamp(value, least_percent, 100.0));
  }
};

std::vector<Knob> knobs_of(Machine& machine, FitOf what) {
  std::vector<Knob> knobs;
  const auto time = [&](Nanoseconds& field) {
    if (field > 0) knobs.push_back({&field, nullptr, nullptr, static_cast<double>(field), nullptr, 0});
  };
  const auto rate = [&](std::uint64_t& field) {
    if (what == FitOf::messages) return;
    if (what == FitOf::all_but_links &&
        (&field == &machine.nic_bytes_per_second || &field == &machine.between.lane_bytes_per_second))
      return;
    if (field > 0) knobs.push_back({nullptr, &field, nullptr, static_cast<double>(field), nullptr, 0});
  };
  time(machine.call_ns);
  time(machine.switch_ns);
  rate(machine.reduce_bytes_per_second);
  rate(machine.memory_bytes_per_second);
  rate(machine.nic_bytes_per_second);
  for (Tier* tier : {&machine.inside, &machine.between}) {
    time(tier->latency_ns);
    if (tier->send_ns > 0) {
      const auto sending = static_cast<double>(tier->send_ns);
      knobs.push_back({&tier->send_ns, nullptr, nullptr, sending, &tier->receive_ns,
                       static_cast<double>(tier->receive_ns) / sending});
    }
    time(tier->grant_ns);
    rate(tier->copy_bytes_per_second);
    rate(tier->place_bytes_per_second);
    rate(tier->lane_bytes_per_second);
  }
  const auto percent = [&](std::uint32_t& field) {
    knobs.push_back({nullptr, nullptr, &field, static_cast<double>(field), nullptr, 0});
  };
  if (machine.cache_bytes > 0 && what != FitOf::messages) percent(machine.cold_percent);
  if (machine.cores > 0 && what != FitOf::messages) percent(machine.shared_core_percent);
  return knobs;
}

std::vector<double> weights_of(std::span<const Measured> measured) {
  std::vector<double> weights;
  for (const Measured& each : measured) {
    const bool fastest = std::none_of(measured.begin(), measured.end(), [&](const Measured& other) {
      return other.collective == each.collective && other.bytes == each.bytes && other.shape == each.shape &&
             other.time_ns < each.time_ns;
    });
    weights.push_back(fastest ? weight_of_fastest : 1);
  }
  return weights;
}

double distance(const Machine& machine, std::span<const Measured> measured, std::span<const double> weights,
                std::span<const Knob> knobs) {
  double sum = 0;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    const double miss = miss_of(machine, measured[i]).value_or(0) / usual_miss;
    sum += weights[i] * usual_miss * usual_miss * std::log1p(miss * miss);
  }
  for (const Knob& knob : knobs) {
    const double moved = std::log(knob.value() / knob.start);
    sum += inertia * moved * moved;
  }
  return sum;
}

}  // namespace

Accuracy accuracy_of(const Machine& machine, std::span<const Measured> measured) {
  Accuracy accuracy;
  std::vector<double> factors;
  for (const Measured& each : measured) {
    const auto miss = miss_of(machine, each);
    if (!miss) continue;
    const double ratio = std::exp(*miss);
    if (within_20_percent(ratio)) ++accuracy.within_20_percent;
    factors.push_back(std::exp(std::abs(*miss)));
  }
  accuracy.priced = factors.size();
  if (factors.empty()) return accuracy;
  std::sort(factors.begin(), factors.end());
  accuracy.median = factors[factors.size() / 2];
  accuracy.worst = factors.back();
  return accuracy;
}

Machine fit_machine(const Machine& start, std::span<const Measured> measured, FitOf what) {
  Machine machine = start;
  const std::vector<Knob> knobs = knobs_of(machine, what);
  const std::vector<double> weights = weights_of(measured);
  double best = distance(machine, measured, weights, knobs);
  for (const double step : steps) {
    bool closer = true;
    for (int round = 0; closer && round < 40; ++round) {
      closer = false;
      for (const Knob& knob : knobs) {
        for (const double factor : {step, 1 / step}) {
          const double before = knob.value();
          knob.set(before * factor);
          const double now = distance(machine, measured, weights, knobs);
          if (now < best) {
            best = now;
            closer = true;
            break;
          }
          knob.set(before);
        }
      }
    }
  }
  return machine;
}

}  // namespace fabring

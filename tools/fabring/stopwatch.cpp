#include "tools/fabring/stopwatch.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace fabring::tools {

using Clock = std::chrono::steady_clock;

namespace {

constexpr int most_calls = 20'000;  // of a repetition; as the peers' drivers

double seconds_of(std::chrono::milliseconds time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

Result<Stopwatch::Timed> Stopwatch::time(const Call& call, int calls, std::vector<double>* each) {
  if (each != nullptr) each->resize(static_cast<std::size_t>(calls));
  FABRING_TRY(world_.barrier());
  const std::uint64_t sent_before = engine_->traffic().wire_bytes_sent;
  const Clock::time_point start = Clock::now();
  if (each == nullptr) {
    for (int i = 0; i < calls; ++i) FABRING_TRY(call());
  } else {
    Clock::time_point last = start;
    for (double& duration : *each) {
      FABRING_TRY(call());
      const Clock::time_point now = Clock::now();
      duration = std::chrono::duration<double>(now - last).count();
      last = now;
    }
  }
  const std::array<double, 2> mine{std::chrono::duration<double>(Clock::now() - start).count(),
                                   static_cast<double>(engine_->traffic().wire_bytes_sent - sent_before)};
  std::vector<double> all(2 * static_cast<std::size_t>(world_.size()));
  FABRING_TRY(world_.all_gather(mine.data(), all.data(), 2, DataType::float64));
  Timed most;
  for (Rank rank = 0; rank < world_.size(); ++rank) {
    const double seconds = all[2 * static_cast<std::size_t>(rank)], sent = all[2 * static_cast<std::size_t>(rank) + 1];
    if (seconds > most.seconds) most.seconds = seconds, most.slowest = rank;
    most.wire_bytes_sent = std::max(most.wire_bytes_sent, sent);
  }
  if (each != nullptr)
    FABRING_TRY(world_.allreduce(each->data(), each->data(), each->size(), DataType::float64, ReduceOp::max));
  return most;
}

Filling filling_of(double one, std::chrono::milliseconds target, int repetitions, std::chrono::milliseconds cap) {
  const auto bounded = [](double number, int least, int most) {
    return static_cast<int>(std::clamp(number, double(least), double(most)));
  };
  const int calls = bounded(seconds_of(target) / one, 3, most_calls);
  const double fitting = seconds_of(cap) / one;  // calls
  if (double(calls) * repetitions <= fitting) return {calls, repetitions};
  return {bounded(fitting / repetitions, 1, most_calls), bounded(fitting, 1, repetitions)};
}

Result<Filling> Stopwatch::filling(const Call& call, std::chrono::milliseconds target, int repetitions,
                                   std::chrono::milliseconds cap) {
  for (int calls = 2;; calls *= 4) {
    const auto total = time(call, calls);
    if (!total) return total.error();
    if (total->seconds > 0.05 * seconds_of(target) || calls * 4 > most_calls)
      return filling_of(std::max(total->seconds / calls, 1e-9), target, repetitions, cap);
  }
}

int calls_timed_singly(int calls, double seconds) {
  constexpr double aim = 0.2, most_seconds = 1;
  const double one = std::max(seconds / calls, 1e-9);
  const int least = 5 * one > most_seconds ? 1 : std::min(5, calls);
  return static_cast<int>(std::clamp(aim / one, double(least), double(calls)));
}

double percentile(std::vector<double>& values, double share) {
  if (values.empty()) return 0;
  const auto at = static_cast<std::ptrdiff_t>(std::ceil(share * static_cast<double>(values.size())) - 1);
  const auto place = values.begin() + std::clamp<std::ptrdiff_t>(at, 0, static_cast<std::ptrdiff_t>(values.size()) - 1);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

}  // namespace fabring::tools

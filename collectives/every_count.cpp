#include "collectives/every_count.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "collectives/check/world.hpp"

namespace fabring {
namespace {

constexpr std::uint64_t most_period = std::uint64_t{1} << 20;
constexpr std::uint64_t most_count = std::uint64_t{1} << 40;  // of a check; orders of bounds settle long before
constexpr std::uint64_t first_count = std::uint64_t{1} << 20;

std::uint64_t least_common_multiple(std::uint64_t a, std::uint64_t b, std::uint64_t most) {
  if (a == 0 || b == 0) return 0;
  const std::uint64_t factor = b / std::gcd(a, b);
  return a > most / factor ? 0 : a * factor;
}

/// Counts k x period + rest are proved for k = 0, 1, ... one after the other, or by steps as far as a check goes.
class Prover {
 public:
  Prover(std::span<const Plan> plans, ReduceOp op, std::uint64_t period) : plans_(plans), op_(op), period_(period) {}

  /// Error: unsupported once there is too much to prove.
  Status check(std::uint64_t count) {
    check::PathCondition path(forms_);
    auto report = check::check_plans(plans_, count, op_, &limit_, &path, check::ScratchReuse::forgets);
    if (!report && report.error().code() != ErrorCode::unsupported) {
      path = check::PathCondition(forms_);
      report = check::check_plans(plans_, count, op_, &limit_, &path, check::ScratchReuse::keeps);
    }
    if (!report)
      return report.error().code() == ErrorCode::unsupported ? report.error() : with_count(count, report.error());
    found_.order.restrict_to(report->order);
    found_.checks += 1;
    path.forget_questions();
    paths_.push_back(std::move(path));
    return {};
  }

  Status prove_rest(std::uint64_t rest) {
    FABRING_TRY(evaluate(rest));
    for (std::int64_t k = 0;;) {
      FABRING_TRY(limit_.take(4));
      std::int64_t until = -1;
      for (std::size_t i = paths_.size(); i-- > 0 && until < k;) {
        FABRING_TRY(limit_.take(paths_[i].work()));
        until = paths_[i].holds_until(k, values_, slopes_).value_or(-1);
        if (until >= k) std::swap(paths_[i], paths_.back());  // it is likely to hold at the next one
      }
      if (until == check::PathCondition::always) return {};
      if (until >= k) {
        k = until + 1;
        continue;
      }
      const auto laps = static_cast<std::uint64_t>(k);
      if (laps > most_count / period_)
        return {ErrorCode::unsupported, "too much to prove: bounds whose order has not settled by 2^40 elements"};
      FABRING_TRY(check(laps * period_ + rest));
      FABRING_TRY(evaluate(rest));  // there may be new atoms
    }
  }

  EveryCount found(bool all) const {
    EveryCount result = found_;
    result.proved = all;
    return result;
  }

 private:
  Status evaluate(std::uint64_t rest) {
    FABRING_TRY(limit_.take(2 * forms_.work()));
    values_.clear();
    slopes_.clear();
    forms_.evaluate(rest, values_);
    forms_.evaluate(rest + period_, slopes_);
    for (std::size_t i = 0; i < values_.size(); ++i) slopes_[i] -= values_[i];
    return {};
  }

  std::span<const Plan> plans_;
  ReduceOp op_;
  std::uint64_t period_;
  WorkLimit limit_{WorkLimit::for_files};
  check::LinearForms forms_{&limit_};
  std::vector<check::PathCondition> paths_;
  EveryCount found_;
  std::vector<std::int64_t> values_, slopes_;
};

}  // namespace

std::uint64_t period_of_bounds(std::span<const Plan> plans, std::uint64_t most) {
  std::uint64_t period = 1;
  for (const Plan& plan : plans) {
    std::vector<std::uint64_t> products(plan.ranges.size(), 1);
    for (RangeId id = 1; id < plan.ranges.size(); ++id) {
      const Range& range = plan.ranges[id];
      const bool is_block = range.parent == 0 && plan.blocks != 0;  // its length is given
      if (range.parent >= id || range.parts == 0 || is_block) continue;
      const std::uint64_t above = products[range.parent];
      if (above > most / range.parts) return 0;
      products[id] = above * range.parts;
      period = least_common_multiple(period, products[id], most);
      if (period == 0) return 0;
    }
  }
  return period;
}

Status with_count(std::size_t count, const Status& error) {
  return error.with_prefix("with " + std::to_string(count) + (count == 1 ? " element: " : " elements: "));
}

Result<EveryCount> prove_every_count(std::span<const Plan> plans, ReduceOp op) {
  const std::uint64_t period = period_of_bounds(plans, most_period);
  if (period == 0) return EveryCount{};
  Prover prover(plans, op, period);
  const auto prove = [&]() -> Status {
    // No part is empty here and few are equal by chance, so that this holds at most of the others.
    FABRING_TRY(prover.check((first_count / period + 1) * period + period / 2));
    for (std::uint64_t rest = 0; rest < period; ++rest) FABRING_TRY(prover.prove_rest(rest));
    return {};
  };
  if (const Status status = prove(); !status.ok()) {
    if (status.code() != ErrorCode::unsupported) return status;
    return prover.found(false);
  }
  return prover.found(true);
}

}  // namespace fabring

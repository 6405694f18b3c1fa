#include "collectives/check/path_condition.hpp"

#include <algorithm>

namespace fabring::check {

void PathCondition::at_most(FormId a, FormId b) {
  if (a == b || !seen_.insert(std::uint64_t{a} << 32 | b).second) return;
  const FormId difference = forms_->minus(a, b);
  if (!known_.insert(difference).second) return;
  not_positive_.push_back(difference);
  work_ += 1 + forms_->terms(difference).size();
}

std::optional<std::int64_t> PathCondition::holds_until(std::int64_t k, const std::vector<std::int64_t>& values,
                                                       const std::vector<std::int64_t>& slopes) const {
  std::int64_t last = always;
  for (const FormId form : not_positive_) {
    std::int64_t at_zero = 0, slope = 0, at_k = 0, part = 0;
    bool too_large = false;  // is as good as a condition that does not hold
    for (const LinearForms::Term& term : forms_->terms(form)) {
      too_large |= __builtin_mul_overflow(term.factor, values[term.atom], &part);
      too_large |= __builtin_add_overflow(at_zero, part, &at_zero);
      too_large |= __builtin_mul_overflow(term.factor, slopes[term.atom], &part);
      too_large |= __builtin_add_overflow(slope, part, &slope);
    }
    too_large |= __builtin_mul_overflow(slope, k, &part);
    too_large |= __builtin_add_overflow(at_zero, part, &at_k);
    if (too_large || at_k > 0) return std::nullopt;
    if (slope > 0) last = std::min(last, k + -at_k / slope);
  }
  return last;
}

}  // namespace fabring::check

#pragma once
// Linear forms: where a bound lies, not as a number but as a sum of "begin of part i of p of a length" and of multiples
// of the count. Two bounds with the same form are equal at every count; others can be held against each other at any
// count without running the check there (path_condition.hpp). Equal forms have equal numbers.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "collectives/check.hpp"

namespace fabring::check {

using FormId = std::uint32_t;
inline constexpr FormId zero_form = 0;

class LinearForms {
 public:
  struct Term {
    std::uint32_t atom = 0;
    std::int64_t factor = 0;
    auto operator<=>(const Term&) const = default;
  };

  /// New forms are work: they may have as many terms as plans have steps.
  explicit LinearForms(WorkLimit* limit);
  LinearForms(const LinearForms&) = delete;
  LinearForms& operator=(const LinearForms&) = delete;

  /// `factor` times the count of elements.
  FormId counts(std::uint32_t factor);
  /// Where part `index` of `parts` of what is as long as `length` begins, counted from its begin.
  FormId begin_of_part(std::uint32_t index, std::uint32_t parts, FormId length);
  FormId plus(FormId a, FormId b) { return combined(a, b, 1); }
  FormId minus(FormId a, FormId b) { return combined(a, b, -1); }

  std::span<const Term> terms(FormId form) const { return *forms_[form]; }
  /// Appends to `values` those of the atoms it does not have yet, at this count.
  void evaluate(std::size_t count, std::vector<std::int64_t>& values) const;
  /// About how many terms that looks at.
  std::size_t work() const { return work_; }

 private:
  struct Part {
    std::uint32_t index;
    std::uint32_t parts;
    FormId length;
    auto operator<=>(const Part&) const = default;
  };

  FormId combined(FormId a, FormId b, int sign);
  FormId intern(std::vector<Term> terms);

  WorkLimit* limit_;
  std::size_t work_ = 1;
  std::vector<Part> atoms_;  // atom 0 is the count; the others come after those of their length
  std::map<Part, FormId> known_parts_;
  std::map<std::vector<Term>, FormId> known_forms_;  // terms by atom
  std::vector<const std::vector<Term>*> forms_;      // its keys
  std::unordered_map<std::uint64_t, FormId> sums_, differences_;
};

}  // namespace fabring::check

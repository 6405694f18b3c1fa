#pragma once
// PathCondition: what a check at one count found out about the order of bounds, and where else that holds. At each
// count at which it holds, the check would succeed too.
//
// Why. A check looks at bounds in one way only: it asks which of two comes first. Each answer is noted: `at_most` where
// the course taken is right for equal bounds too, `equal` where only for these. Let the check succeed at count P, and
// all that was noted hold at count Q. Replay the course of P with the bounds of Q:
//  * What P holds in a memory are pieces that lie side by side and fill it. At Q the same pieces do so, but some may be
//    empty, and these hold nothing. Read, write and reduce cut and join pieces as at P: what they leave out at P lies
//    outside at Q (a <= b was noted), what they take lies inside or is empty, what they join has equal shifts (noted).
//    So what an element holds at Q is what some element of the same piece holds at P.
//  * Nothing that is read or judged at P is undefined or wrong. At Q only elements of the same pieces are.
//  * Two accesses that share elements at Q do at P, or P would have noted that one ends before the other begins; there
//    they are ordered, or the same elements of one step (noted).
//  * Lengths of both ends of a message and of all operands are equal (noted).
//  * Order and number of messages, and whether all can happen, do not depend on the count.
//
// How far. Bounds are linear in k at k x period + r (period_of_bounds), hence all that was noted is an inequality in k,
// and holds from some k to some other, or for ever: no large k needs to be looked at, and no small one is left out.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "collectives/check/linear_forms.hpp"

namespace fabring::check {

/// A position among elements: its number at this count, and its form; zero_form where nothing is noted.
struct Position {
  Position() = default;
  Position(std::size_t at_, FormId form_ = zero_form) : at(at_), form(form_) {}  // NOLINT: a number is a position
  std::size_t at = 0;
  FormId form = zero_form;
};

/// Where a range or block lies.
struct Bounds {
  Position begin, end;
  std::size_t count() const { return end.at - begin.at; }
  Extent extent() const { return {begin.at, count()}; }
};

class PathCondition {
 public:
  explicit PathCondition(LinearForms& forms) : forms_(&forms) {}

  LinearForms& forms() { return *forms_; }
  void at_most(FormId a, FormId b);
  void equal(FormId a, FormId b) {
    at_most(a, b);
    at_most(b, a);
  }

  /// The last k, from `k` on, up to which this holds at k x period + r: every k, if it is `always`; none, if not at
  /// `k`. `values` are those of the forms' atoms at r, `slopes` what they grow by in a period.
  static constexpr std::int64_t always = INT64_MAX;
  std::optional<std::int64_t> holds_until(std::int64_t k, const std::vector<std::int64_t>& values,
                                          const std::vector<std::int64_t>& slopes) const;
  /// About how many terms that looks at.
  std::size_t work() const { return work_; }
  /// Once all is noted: gives back what only served to note nothing twice.
  void forget_questions() {
    seen_ = {};
    known_ = {};
  }

 private:
  LinearForms* forms_;
  std::unordered_set<std::uint64_t> seen_;
  std::unordered_set<FormId> known_;
  std::size_t work_ = 1;
  std::vector<FormId> not_positive_;  // forms that must be at most zero
};

/// a < b, noted. Whoever asks does what is right for equal ones too where the answer is yes: where it is no, they may
/// be equal anyway.
inline bool comes_before(PathCondition* path, Position a, Position b) {
  const bool before = a.at < b.at;
  if (path != nullptr) before ? path->at_most(a.form, b.form) : path->at_most(b.form, a.form);
  return before;
}

/// Is there nothing? Noted.
inline bool is_empty(PathCondition* path, const Bounds& bounds) {
  const bool empty = bounds.count() == 0;
  if (path != nullptr) {
    path->at_most(bounds.begin.form, bounds.end.form);
    if (empty) path->at_most(bounds.end.form, bounds.begin.form);
  }
  return empty;
}

}  // namespace fabring::check

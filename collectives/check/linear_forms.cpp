#include "collectives/check/linear_forms.hpp"

#include <algorithm>
#include <utility>

namespace fabring::check {

LinearForms::LinearForms(WorkLimit* limit) : limit_(limit), atoms_{{0, 0, zero_form}} {
  forms_.push_back(&known_forms_.emplace(std::vector<Term>{}, zero_form).first->first);
}

FormId LinearForms::intern(std::vector<Term> terms) {
  const auto id = static_cast<FormId>(forms_.size());
  const auto [at, added] = known_forms_.try_emplace(std::move(terms), id);
  if (added) {
    forms_.push_back(&at->first);
    // A limit that is used up stays so: whoever takes from it next hears of it.
    if (limit_ != nullptr) (void)limit_->take(16 + 4 * at->first.size());
  }
  return at->second;
}

FormId LinearForms::counts(std::uint32_t factor) {
  return factor == 0 ? zero_form : intern({{0, static_cast<std::int64_t>(factor)}});
}

FormId LinearForms::begin_of_part(std::uint32_t index, std::uint32_t parts, FormId length) {
  if (index == 0 || length == zero_form) return zero_form;
  if (index == parts) return length;
  const Part part{index, parts, length};
  if (const auto known = known_parts_.find(part); known != known_parts_.end()) return known->second;
  atoms_.push_back(part);
  work_ += 2 + forms_[length]->size();
  return known_parts_[part] = intern({{static_cast<std::uint32_t>(atoms_.size() - 1), 1}});
}

FormId LinearForms::combined(FormId a, FormId b, int sign) {
  if (b == zero_form) return a;
  if (sign < 0 && a == b) return zero_form;
  if (sign > 0 && a == zero_form) return b;
  auto& known = sign < 0 ? differences_ : sums_;
  const std::uint64_t key = std::uint64_t{a} << 32 | b;
  if (const auto at = known.find(key); at != known.end()) return at->second;
  std::vector<Term> terms;
  const std::vector<Term>&left = *forms_[a], &right = *forms_[b];
  for (std::size_t i = 0, j = 0; i < left.size() || j < right.size();) {
    Term term;
    term.atom = j == right.size() || (i < left.size() && left[i].atom < right[j].atom) ? left[i].atom : right[j].atom;
    if (i < left.size() && left[i].atom == term.atom) term.factor += left[i++].factor;
    if (j < right.size() && right[j].atom == term.atom) term.factor += sign * right[j++].factor;
    if (term.factor != 0) terms.push_back(term);
  }
  const FormId form = intern(std::move(terms));
  known.emplace(key, form);
  return form;
}

void LinearForms::evaluate(std::size_t count, std::vector<std::int64_t>& values) const {
  if (values.empty()) values.push_back(static_cast<std::int64_t>(count));
  while (values.size() < atoms_.size()) {
    const Part& part = atoms_[values.size()];
    std::int64_t length = 0;
    for (const Term& term : *forms_[part.length]) length += term.factor * values[term.atom];
    values.push_back(static_cast<std::int64_t>(
        fabring::part({0, static_cast<std::size_t>(length)}, 0, part.index, part.parts).count));
  }
}

}  // namespace fabring::check

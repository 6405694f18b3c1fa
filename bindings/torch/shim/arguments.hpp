#pragma once
// What the collectives ask of the tensors and lists of tensors they are given.

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <vector>

#include "process_group.hpp"

namespace fabring_torch {

using Tensors = ProcessGroup::Tensors;

template <class List>
void check_one(const List& list, const char* title, const char* what) {
  TORCH_CHECK_VALUE(list.size() == 1, "fabring: ", title, " takes one ", what, ", not ", list.size());
}

inline void check_none(const std::vector<Tensors>& lists, const char* title) {
  TORCH_CHECK_VALUE(lists.empty() || (lists.size() == 1 && lists[0].empty()), "fabring: ", title,
                    ": only the root gives a list of tensors");
}

inline std::size_t count_of(const at::Tensor& tensor, const Elements& elements) {
  return static_cast<std::size_t>(tensor.numel()) * elements.factor;
}

/// What goes in and where the result goes, none without a tensor. First what is to be written: a tensor that shares its
/// memory until then (copy on write) has another afterwards.
inline void fill(fabring_operation& operation, const at::Tensor& in, const at::Tensor& out, const Elements& elements) {
  operation.out = out.defined() ? out.mutable_data_ptr() : nullptr;
  operation.in = in.defined() ? in.const_data_ptr() : nullptr;
  operation.type = elements.type;
}
/// The same with every rank's part as long as `part`.
inline void fill(fabring_operation& operation, const at::Tensor& in, const at::Tensor& out, const Elements& elements,
                 const at::Tensor& part) {
  fill(operation, in, out, elements);
  operation.count = count_of(part, elements);
}

/// `in`, or a copy if it shares memory with `out` elsewhere than where an operation in place has it: `at` elements
/// after `out` begins.
inline at::Tensor apart(const at::Tensor& in, const at::Tensor& out, std::int64_t at) {
  const auto* const input = static_cast<const char*>(in.const_data_ptr());
  const auto* const output = static_cast<const char*>(out.const_data_ptr());
  const bool overlap = input < output + out.nbytes() && output < input + in.nbytes();
  return overlap && input != output + at * out.element_size() ? in.clone() : in;
}

inline bool of_one_size(const Tensors& tensors, std::int64_t elements) {
  return std::all_of(tensors.begin(), tensors.end(), [&](const at::Tensor& t) { return t.numel() == elements; });
}

/// Of the tensors of the ranks before this one.
inline std::int64_t elements_before(const Tensors& tensors, int rank) {
  std::int64_t sum = 0;
  for (int before = 0; before < rank; ++before) sum += tensors[static_cast<std::size_t>(before)].numel();
  return sum;
}

inline std::vector<std::size_t> counts_of(const Tensors& tensors, const Elements& elements) {
  std::vector<std::size_t> counts;
  for (const at::Tensor& tensor : tensors) counts.push_back(count_of(tensor, elements));
  return counts;
}

}  // namespace fabring_torch

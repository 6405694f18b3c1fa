#include "runtime/engine/call/tensor_overlap.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace fabring {
namespace {

struct Output {
  std::uintptr_t begin = 0, end = 0;
  std::size_t tensor = 0;
};

std::uintptr_t address(const void* of) { return reinterpret_cast<std::uintptr_t>(of); }

// One buffer after the other in memory, as gradients often lie: then nothing need be sorted.
bool ascend_in_place(std::span<const Tensor> tensors, std::size_t element_bytes) {
  std::uintptr_t end = 0;
  return std::ranges::all_of(tensors, [&](const Tensor& tensor) {
    if (tensor.count == 0) return true;
    if (tensor.in != tensor.out || address(tensor.out) < end) return false;
    end = address(tensor.out) + tensor.count * element_bytes;
    return true;
  });
}

std::vector<Output> outputs_in_order(std::span<const Tensor> tensors, std::size_t element_bytes) {
  std::vector<Output> all;
  all.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (const std::uintptr_t begin = address(tensors[i].out); tensors[i].count > 0)
      all.push_back({begin, begin + tensors[i].count * element_bytes, i});
  const auto before = [](const Output& a, const Output& b) { return a.begin < b.begin; };
  if (std::is_sorted(all.rbegin(), all.rend(), before)) std::reverse(all.begin(), all.end());
  if (!std::is_sorted(all.begin(), all.end(), before)) std::sort(all.begin(), all.end(), before);
  return all;
}

}  // namespace

std::optional<std::pair<std::size_t, std::size_t>> overlapping(std::span<const Tensor> tensors,
                                                               std::size_t element_bytes) {
  if (ascend_in_place(tensors, element_bytes)) return std::nullopt;
  const std::vector<Output> outputs = outputs_in_order(tensors, element_bytes);
  for (std::size_t i = 1; i < outputs.size(); ++i)
    if (outputs[i].begin < outputs[i - 1].end) return std::minmax({outputs[i - 1].tensor, outputs[i].tensor});
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::uintptr_t begin = address(tensors[i].in), end = begin + tensors[i].count * element_bytes;
    if (tensors[i].count == 0 || tensors[i].in == tensors[i].out) continue;
    const auto after = std::ranges::upper_bound(outputs, begin, {}, &Output::end);  // the first that ends later
    if (after != outputs.end() && after->begin < end) return std::minmax({i, after->tensor});
  }
  return std::nullopt;
}

}  // namespace fabring

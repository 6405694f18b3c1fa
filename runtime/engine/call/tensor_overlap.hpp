#pragma once
// Whether the tensors of a grouped operation, which are all reduced at once, are each other's.

#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include "fabring/operation.hpp"

namespace fabring {

/// Two tensors, the lower number first, of which the one's output and the other's input or output have bytes in common.
/// Inputs, which are only read, may overlap each other. Of tensors each of which is right by itself: in place, or with
/// an input and an output that do not overlap.
std::optional<std::pair<std::size_t, std::size_t>> overlapping(std::span<const Tensor> tensors,
                                                               std::size_t element_bytes);

}  // namespace fabring

#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

namespace fabring_torch {

/// Copies to make when the operation has succeeded: first = second.
using Copies = std::vector<std::pair<at::Tensor, at::Tensor>>;

}  // namespace fabring_torch

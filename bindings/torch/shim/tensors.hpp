#pragma once
// Tensors as fabring.h wants memory: dense, on the CPU or a CUDA device, elements of a type it knows. What is not
// contiguous, does not begin at a multiple of its elements' size, or is a view that conjugates or negates what its
// memory holds, is copied to memory that holds its elements, and back when the operation is over; several tensors that
// make one buffer are used where they lie if they happen to lie one after the other, and copied if not.

#include <ATen/ATen.h>

#include <torch/csrc/distributed/c10d/Types.hpp>

#include <cstddef>
#include <string>
#include <vector>

#include "copies.hpp"
#include "fabring/fabring.h"

namespace fabring_torch {

/// How elements are described to fabring.h: `factor` of ours make one of the tensor.
struct Elements {
  fabring_data_type type = FABRING_TYPE_UINT8;
  std::size_t factor = 1;
};

/// For moving: any type goes, as bytes if need be.
Elements elements_to_move(const at::Tensor& tensor);
/// For reducing; also fills what the operation brings along into *into. Throws for a type or operation that has no
/// meaning, naming both.
Elements elements_to_reduce(const at::Tensor& tensor, const c10d::ReduceOp& op, fabring_operation* into);

/// Throws unless it is a dense tensor on the CPU or a CUDA device. `what` names it in the error.
void check_usable(const at::Tensor& tensor, const char* what);
/// ... and unless it has that type.
void check_type(const at::Tensor& tensor, at::ScalarType type, const char* what);

/// Memory to read: the tensor's, or that of a copy.
at::Tensor to_read(const at::Tensor& tensor, const char* what);
/// Memory to write, or to read and write if `keep`.
at::Tensor to_write(const at::Tensor& tensor, bool keep, Copies& copies, const char* what);
/// Several tensors as one buffer of one dimension.
at::Tensor to_read(const std::vector<at::Tensor>& tensors, const char* what);
at::Tensor to_write(const std::vector<at::Tensor>& tensors, Copies& copies, const char* what);

/// "float32 [2, 3]"
std::string describe(const at::Tensor& tensor);

}  // namespace fabring_torch

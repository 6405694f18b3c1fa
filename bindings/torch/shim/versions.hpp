#pragma once
// What the versions of PyTorch that this backend is built against (2.11 and newer) name differently.

#include <torch/version.h>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace fabring_torch {

#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 13
using PreMulSumSupplement = c10d::NCCLPreMulSumSupplement;
#else
using PreMulSumSupplement = c10d::PreMulSumSupplement;
#endif

#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 12
inline constexpr c10d::OpType reduce_scatter_tensor_coalesced_type = c10d::OpType::COALESCED;
#else
inline constexpr c10d::OpType reduce_scatter_tensor_coalesced_type = c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED;
#endif

// FSDP2 asks for tensors by supports_tensor_alloc and allocate_tensor. Only tried with this version and newer ones.
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 13
#define FABRING_TORCH_ASKS_FOR_TENSORS 1
#else
#define FABRING_TORCH_ASKS_FOR_TENSORS 0
#endif

}  // namespace fabring_torch

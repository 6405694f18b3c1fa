#pragma once
// Which kernel does what is asked, and with which argument. Knows no driver: a test runs the same choices on the
// processor.

#include <optional>
#include <span>
#include <string>

#include "device/cuda/kernels/copies.hpp"
#include "device/cuda/kernels/fold_task.hpp"
#include "device/device_runtime.hpp"

namespace fabring::cuda {

struct KernelCall {
  std::string kernel;  ///< "sum_float32", as kernels/all.hpp has it; empty: a copy of the only source
  kernels::FoldTask task;
  std::size_t element_bytes = 1;  ///< of the task's elements: of bitwise operations, one
};

/// Errors: invalid_argument for an operation that no kernel does, more than 64 sources or none, an address that is no
/// multiple of the element's size, or no number of ranks.
Result<KernelCall> choose_kernel(const DeviceReduction& what);
Result<KernelCall> choose_scaling(DataType type, std::byte* to, const std::byte* from, const void* factor,
                                  std::size_t count);

/// These copies as the argument of one kernel, but for whom it tells; nothing if they are too many or too large for it.
std::optional<kernels::CopyTask> choose_copies(std::span<const DeviceCopy> copies);

}  // namespace fabring::cuda

#pragma once
// The GPU kernels, compiled for the processor: the same code, called once for each thread of the grid. What a fake
// device runs.

#include <cstdint>
#include <string_view>

#include "device/cuda/kernels/fold_task.hpp"

namespace fabring::fixture {

/// One thread of a grid of `threads`.
using HostKernel = void (*)(const cuda::kernels::FoldTask& task, std::uint64_t thread, std::uint64_t threads);

/// By its name in device/cuda/kernels/all.hpp; null if there is none.
HostKernel find_host_kernel(std::string_view name);

}  // namespace fabring::fixture

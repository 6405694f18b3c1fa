#pragma once
// The compiled kernels, as the driver takes them: one fatbin for each family, with code for several GPUs and PTX for
// those to come.

#include <cstddef>
#include <span>

namespace fabring::cuda::kernels {

/// None in a build without nvcc.
std::span<const void* const> images();
/// How long each is; for tests, which look into them.
std::span<const std::size_t> image_bytes();

}  // namespace fabring::cuda::kernels

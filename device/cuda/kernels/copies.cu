#include "device/cuda/kernels/copies.hpp"

// The barrier puts what all threads of the block wrote before the word, and the release all of that before it for
// whoever reads the word, the processor too.
extern "C" __global__ void __launch_bounds__(fabring::cuda::kernels::threads_per_block)
    fabring_copy_and_tell(const __grid_constant__ fabring::cuda::kernels::CopyTask task) {
  fabring::cuda::kernels::copy_pieces(task, blockIdx.x * static_cast<std::uint64_t>(blockDim.x) + threadIdx.x,
                                      gridDim.x * static_cast<std::uint64_t>(blockDim.x));
  __syncthreads();
  if (threadIdx.x == 0)
    asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(task.told + blockIdx.x), "l"(task.number) : "memory");
}

#pragma once
// Every kernel there is, by family: X(name, unit). Each .cu file compiles one family; a test compiles all of them for
// the processor. The name is that of the operation and of the type, as fabring::name() has them; kernel_choice.cpp says
// which operation and type uses which.

#include "device/cuda/kernels/fold.hpp"

// clang-format off
#define FABRING_KERNELS_OF_FLOATS(X, type, ...)                                  \
  X(sum_##type, Fold<__VA_ARGS__, FloatSum>) X(prod_##type, Fold<__VA_ARGS__, FloatProduct>) \
  X(min_##type, Fold<__VA_ARGS__, FloatMinimum>) X(max_##type, Fold<__VA_ARGS__, FloatMaximum>) \
  X(divide_##type, Divide<__VA_ARGS__>) X(scale_##type, Scale<__VA_ARGS__>)

// Products wrap to the same bits whatever the sign.
#define FABRING_KERNELS_OF_INTEGERS(X, bits)                                                      \
  X(sum_int##bits, Fold<Integer<std::int##bits##_t>, IntegerSum>)                                 \
  X(sum_uint##bits, Fold<Integer<std::uint##bits##_t>, IntegerSum>)                               \
  X(min_int##bits, Fold<Integer<std::int##bits##_t>, IntegerMinimum>)                             \
  X(min_uint##bits, Fold<Integer<std::uint##bits##_t>, IntegerMinimum>)                           \
  X(max_int##bits, Fold<Integer<std::int##bits##_t>, IntegerMaximum>)                             \
  X(max_uint##bits, Fold<Integer<std::uint##bits##_t>, IntegerMaximum>)                           \
  X(prod_uint##bits, Fold<Integer<std::uint##bits##_t>, IntegerProduct>)                          \
  X(divide_int##bits, Divide<Integer<std::int##bits##_t>>)                                        \
  X(divide_uint##bits, Divide<Integer<std::uint##bits##_t>>)                                      \
  X(scale_uint##bits, Scale<Integer<std::uint##bits##_t>>)

#define FABRING_KERNELS_OF_TRUTHS(X, bits)                          \
  X(logical_and_uint##bits, Fold<Truth<std::uint##bits##_t>, And>)  \
  X(logical_or_uint##bits, Fold<Truth<std::uint##bits##_t>, Or>)    \
  X(logical_xor_uint##bits, Fold<Truth<std::uint##bits##_t>, Xor>)

#define FABRING_KERNELS_FLOATS(X)                   \
  FABRING_KERNELS_OF_FLOATS(X, float64, Float<double>) \
  FABRING_KERNELS_OF_FLOATS(X, float32, Float<float>)
#define FABRING_KERNELS_HALVES(X)                   \
  FABRING_KERNELS_OF_FLOATS(X, float16, Float16)    \
  FABRING_KERNELS_OF_FLOATS(X, bfloat16, Bfloat16)
#define FABRING_KERNELS_FLOAT8(X)                                        \
  FABRING_KERNELS_OF_FLOATS(X, float8_e4m3, Float8<E4m3Layout>)          \
  FABRING_KERNELS_OF_FLOATS(X, float8_e5m2, Float8<E5m2Layout>)
#define FABRING_KERNELS_INTEGERS(X)                                            \
  FABRING_KERNELS_OF_INTEGERS(X, 8) FABRING_KERNELS_OF_INTEGERS(X, 16)         \
  FABRING_KERNELS_OF_INTEGERS(X, 32) FABRING_KERNELS_OF_INTEGERS(X, 64)
#define FABRING_KERNELS_BITS(X)                                                \
  FABRING_KERNELS_OF_TRUTHS(X, 8) FABRING_KERNELS_OF_TRUTHS(X, 16)             \
  FABRING_KERNELS_OF_TRUTHS(X, 32) FABRING_KERNELS_OF_TRUTHS(X, 64)            \
  X(bitwise_and, FoldBits<And>) X(bitwise_or, FoldBits<Or>) X(bitwise_xor, FoldBits<Xor>)
#define FABRING_KERNELS(X)                                                     \
  FABRING_KERNELS_FLOATS(X) FABRING_KERNELS_HALVES(X) FABRING_KERNELS_FLOAT8(X) \
  FABRING_KERNELS_INTEGERS(X) FABRING_KERNELS_BITS(X)
// clang-format on

#ifdef __CUDACC__
// extern "C": a kernel is found by its name.
#define FABRING_DEFINE_KERNEL(name, ...)                                                       \
  extern "C" __global__ void __launch_bounds__(fabring::cuda::kernels::threads_per_block)      \
      fabring_##name(const __grid_constant__ fabring::cuda::kernels::FoldTask task) {          \
    using namespace fabring::cuda::kernels;                                                    \
    fold<__VA_ARGS__>(task, blockIdx.x * static_cast<std::uint64_t>(blockDim.x) + threadIdx.x, \
                      gridDim.x * static_cast<std::uint64_t>(blockDim.x));                     \
  }
#endif

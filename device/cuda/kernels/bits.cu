#include "device/cuda/kernels/all.hpp"

FABRING_KERNELS_BITS(FABRING_DEFINE_KERNEL)

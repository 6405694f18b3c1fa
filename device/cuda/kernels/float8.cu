#include "device/cuda/kernels/all.hpp"

FABRING_KERNELS_FLOAT8(FABRING_DEFINE_KERNEL)

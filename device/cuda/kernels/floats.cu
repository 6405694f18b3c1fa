#include "device/cuda/kernels/all.hpp"

FABRING_KERNELS_FLOATS(FABRING_DEFINE_KERNEL)

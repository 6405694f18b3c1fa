#include "device/cuda/kernels/all.hpp"

FABRING_KERNELS_INTEGERS(FABRING_DEFINE_KERNEL)

#include "device/cuda/kernels/all.hpp"

FABRING_KERNELS_HALVES(FABRING_DEFINE_KERNEL)

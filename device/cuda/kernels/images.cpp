#include "device/cuda/kernels/images.hpp"

#ifdef FABRING_KERNEL_IMAGES

// FABRING_KERNEL_IMAGES is the folder with what nvcc made.
#define FABRING_EMBED(name)                                                                    \
  asm(".pushsection .rodata\n"                                                                 \
      ".balign 64\n"                                                                           \
      "fabring_image_" #name ": .incbin \"" FABRING_KERNEL_IMAGES "/" #name                    \
      ".fatbin\"\n"                                                                            \
      "fabring_image_end_" #name                                                               \
      ": .byte 0\n"                                                                            \
      ".popsection\n");                                                                        \
  extern "C" __attribute__((visibility("hidden"))) const unsigned char fabring_image_##name[]; \
  extern "C" __attribute__((visibility("hidden"))) const unsigned char fabring_image_end_##name[];

FABRING_EMBED(floats)
FABRING_EMBED(halves)
FABRING_EMBED(float8)
FABRING_EMBED(integers)
FABRING_EMBED(bits)
FABRING_EMBED(copies)

namespace fabring::cuda::kernels {
namespace {

const void* const all[] = {fabring_image_floats,   fabring_image_halves, fabring_image_float8,
                           fabring_image_integers, fabring_image_bits,   fabring_image_copies};

const std::size_t lengths[] = {
    static_cast<std::size_t>(fabring_image_end_floats - fabring_image_floats),
    static_cast<std::size_t>(fabring_image_end_halves - fabring_image_halves),
    static_cast<std::size_t>(fabring_image_end_float8 - fabring_image_float8),
    static_cast<std::size_t>(fabring_image_end_integers - fabring_image_integers),
    static_cast<std::size_t>(fabring_image_end_bits - fabring_image_bits),
    static_cast<std::size_t>(fabring_image_end_copies - fabring_image_copies),
};

}  // namespace

std::span<const void* const> images() { return all; }
std::span<const std::size_t> image_bytes() { return lengths; }

}  // namespace fabring::cuda::kernels

#else

namespace fabring::cuda::kernels {

std::span<const void* const> images() { return {}; }
std::span<const std::size_t> image_bytes() { return {}; }

}  // namespace fabring::cuda::kernels

#endif

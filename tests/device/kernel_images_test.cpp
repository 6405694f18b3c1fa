// What nvcc made is in the library: code for the three families of GPUs, and PTX for those to come. The layout of a
// fatbin is read here as far as that takes: a header of 16 bytes, then entries that begin with kind (1: PTX, 2: code),
// version, bytes of the entry's header and bytes after it, and have the GPU's number at byte 28 and flags at byte 40,
// as nvcc 13 writes them.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <string>

#include "device/cuda/kernels/images.hpp"

namespace fabring::cuda::kernels {
namespace {

template <class T>
T at(const void* image, std::size_t offset) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(image) + offset, sizeof value);
  return value;
}

TEST(KernelImages, each_has_code_for_three_gpus_and_ptx_and_float8_for_one_more) {
  ASSERT_EQ(images().size(), 6u);
  ASSERT_EQ(image_bytes().size(), 6u);
  std::size_t all = 0;
  int converting = 0;  // float8, as GPUs do since compute capability 8.9
  for (std::size_t i = 0; i < images().size(); ++i) {
    const void* const image = images()[i];
    const std::size_t bytes = image_bytes()[i];
    all += bytes;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(image) % 8, 0u);
    ASSERT_GT(bytes, 16u);
    ASSERT_EQ(at<std::uint32_t>(image, 0), 0xBA55ED50u);
    constexpr std::uint32_t zstd = 0x8000;  // which drivers before r550 take for an invalid image
    std::set<std::string> found;
    for (std::size_t next = 16; next < bytes;) {
      ASSERT_LE(next + 48, bytes);
      const auto kind = at<std::uint16_t>(image, next);
      found.insert((kind == 1   ? "compute_"
                    : kind == 2 ? "sm_"
                                : "?") +
                   std::to_string(at<std::uint32_t>(image, next + 28)));
      EXPECT_EQ(at<std::uint32_t>(image, next + 40) & zstd, 0u) << "image " << i;
      next += at<std::uint32_t>(image, next + 4) + at<std::uint64_t>(image, next + 8);
    }
    const bool converts = found.erase("sm_89") + found.erase("compute_89") == 2;
    converting += converts ? 1 : 0;
    EXPECT_EQ(found, (std::set<std::string>{"sm_80", "sm_90", "sm_100", "compute_80"})) << "image " << i;
  }
  EXPECT_EQ(converting, 1);
  EXPECT_LT(all, 2u << 20) << "the library grows by this";
}

}  // namespace
}  // namespace fabring::cuda::kernels

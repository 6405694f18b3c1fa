#include "runtime/base/copy_bytes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace fabring {
namespace {

constexpr std::size_t page = 4096;

// Bytes of which no two within 251 are equal, so that any shift shows.
std::vector<std::byte> counting(std::size_t bytes) {
  std::vector<std::byte> made(bytes);
  for (std::size_t i = 0; i < bytes; ++i) made[i] = static_cast<std::byte>(i % 251);
  return made;
}

TEST(CopyBytes, IsACopyAtEveryDistanceWithinAPage) {
  const std::vector<std::byte> from = counting(40'000);
  std::vector<std::byte> to(50'000), expected(50'000);
  const std::size_t least = detail::least_repeated;
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, least - 1, least, least + 1, least + 63, std::size_t{33'000}}) {
    for (std::size_t distance = 0; distance < 70; ++distance) {
      // Where in `to` a copy from here lies so far behind it within a page.
      const std::byte* const source = from.data() + 100;
      const auto apart = reinterpret_cast<std::uintptr_t>(source) - reinterpret_cast<std::uintptr_t>(to.data());
      const std::size_t at = (apart + distance) % page;
      std::fill(to.begin(), to.end(), std::byte{255});
      std::fill(expected.begin(), expected.end(), std::byte{255});
      std::copy_n(source, bytes, expected.begin() + static_cast<std::ptrdiff_t>(at));
      copy_bytes(to.data() + at, source, bytes);
      ASSERT_TRUE(to == expected) << bytes << " bytes, " << distance << " behind";
    }
  }
}

TEST(CopyBytes, KnowsWhichDistancesAreSlow) {
  alignas(page) static std::byte memory[4 * page];
  for (std::size_t distance = 0; distance < page; ++distance) {
    const bool slow = distance >= 1 && distance <= 31;
    ASSERT_EQ(detail::lies_just_behind(memory + 2 * page + distance, memory), slow) << distance;
    ASSERT_EQ(detail::lies_just_behind(memory + distance, memory + 3 * page), slow) << distance;
  }
}

TEST(CopyBytes, OfNothingNeedsNoPlace) { copy_bytes(nullptr, nullptr, 0); }

}  // namespace
}  // namespace fabring

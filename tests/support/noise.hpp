#pragma once
// What made-up data of tests are made of.

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace fabring::fixture {

template <class T>
void put(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

inline std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9e3779b97f4a7c15 + b;
  x ^= x >> 31;
  x *= 0xbf58476d1ce4e5b9;
  return x ^ (x >> 29);
}

}  // namespace fabring::fixture

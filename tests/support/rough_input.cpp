#include "tests/support/rough_input.hpp"

#include <bit>

#include "tests/support/noise.hpp"

namespace fabring::fixture {

std::vector<std::byte> rough_input(DataType type, int rank, std::size_t count, std::uint64_t salt) {
  const std::size_t element = size_of(type);
  std::vector<std::byte> bytes(count * element);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t noise = mixed(mixed(salt, i), static_cast<std::uint64_t>(rank) + 1);
    const double value = (static_cast<double>(noise >> 20) * 0x1p-44 - 0.5) * static_cast<double>(1u << (noise % 12));
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    std::byte* at = bytes.data() + i * element;
    switch (type) {
      case DataType::float64:
        put(at, value);
        break;
      case DataType::bfloat16:
        put(at, static_cast<std::uint16_t>(bits >> 16));
        break;
      case DataType::float16:  // any sign and fraction, exponents around one
        put(at, static_cast<std::uint16_t>((noise & 0x83ff) | (11 + noise % 7) << 10));
        break;
      case DataType::float8_e4m3:  // likewise
        put(at, static_cast<std::uint8_t>((noise & 0x87) | (4 + noise / 8 % 7) << 3));
        break;
      case DataType::float8_e5m2:
        put(at, static_cast<std::uint8_t>((noise & 0x83) | (11 + noise / 8 % 7) << 2));
        break;
      default:
        put(at, static_cast<float>(value));
    }
  }
  return bytes;
}

}  // namespace fabring::fixture

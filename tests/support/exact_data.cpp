#include "tests/support/exact_data.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace fabring::fixture {
namespace {

constexpr std::byte canary{0x5C};

template <class T>
void put(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

// Whole numbers below 2048 are exact in binary16: sign, exponent of the top bit, the rest as mantissa.
std::uint16_t half_bits(std::int64_t value) {
  if (value == 0) return 0;
  const auto magnitude = static_cast<std::uint32_t>(value < 0 ? -value : value);
  const int top = std::bit_width(magnitude) - 1;
  const std::uint32_t mantissa = (top <= 10 ? magnitude << (10 - top) : magnitude >> (top - 10)) & 0x3ff;
  return static_cast<std::uint16_t>((value < 0 ? 0x8000u : 0u) | static_cast<std::uint32_t>(top + 15) << 10 | mantissa);
}

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9e3779b97f4a7c15 + b;
  x ^= x >> 31;
  x *= 0xbf58476d1ce4e5b9;
  return x ^ (x >> 29);
}

}  // namespace

void store(DataType type, std::byte* at, std::int64_t value) {
  switch (type) {
    case DataType::float64:
      return put(at, static_cast<double>(value));
    case DataType::float32:
      return put(at, static_cast<float>(value));
    case DataType::float16:
      return put(at, half_bits(value));
    case DataType::bfloat16:
      return put(at, static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16));
    case DataType::int8:
      return put(at, static_cast<std::int8_t>(value));
    case DataType::int16:
      return put(at, static_cast<std::int16_t>(value));
    case DataType::int32:
      return put(at, static_cast<std::int32_t>(value));
    case DataType::int64:
      return put(at, value);
    case DataType::uint8:
      return put(at, static_cast<std::uint8_t>(value));
    case DataType::uint16:
      return put(at, static_cast<std::uint16_t>(value));
    case DataType::uint32:
      return put(at, static_cast<std::uint32_t>(value));
    case DataType::uint64:
      return put(at, static_cast<std::uint64_t>(value));
  }
}

std::int64_t input_value(ReduceOp op, int rank, int ranks, std::size_t index, std::uint64_t salt) {
  const std::uint64_t noise = mixed(salt + 1, index);
  switch (op) {
    case ReduceOp::prod: {  // up to three ranks have a 2
      const auto turn = static_cast<std::uint64_t>(rank) + noise % static_cast<std::uint64_t>(ranks);
      return turn % static_cast<std::uint64_t>(ranks) < 3 ? 2 : 1;
    }
    case ReduceOp::avg:  // the ranks' deviations cancel
      return static_cast<std::int64_t>(2 + noise % 4) + (rank == ranks - 1 && ranks % 2 == 1 ? 0
                                                         : rank % 2 == 0                     ? 1
                                                                                             : -1);
    default:
      return static_cast<std::int64_t>(mixed(noise, static_cast<std::uint64_t>(rank)) % 8);
  }
}

std::int64_t output_value(ReduceOp op, int ranks, std::size_t index, std::uint64_t salt) {
  std::int64_t result = input_value(op, 0, ranks, index, salt);
  for (int rank = 1; rank < ranks; ++rank) {
    const std::int64_t value = input_value(op, rank, ranks, index, salt);
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::avg:
        result += value;
        break;
      case ReduceOp::prod:
        result *= value;
        break;
      case ReduceOp::min:
        result = std::min(result, value);
        break;
      case ReduceOp::max:
        result = std::max(result, value);
        break;
    }
  }
  return op == ReduceOp::avg ? result / ranks : result;
}

std::vector<std::byte> input_of(DataType type, ReduceOp op, int rank, int ranks, std::size_t count,
                                std::uint64_t salt) {
  const std::size_t element = size_of(type);
  std::vector<std::byte> bytes(count * element);
  for (std::size_t i = 0; i < count; ++i)
    store(type, bytes.data() + i * element, input_value(op, rank, ranks, i, salt));
  return bytes;
}

std::vector<std::byte> output_of(DataType type, ReduceOp op, int ranks, std::size_t count, std::uint64_t salt) {
  const std::size_t element = size_of(type);
  std::vector<std::byte> bytes(count * element);
  for (std::size_t i = 0; i < count; ++i) store(type, bytes.data() + i * element, output_value(op, ranks, i, salt));
  return bytes;
}

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
      default:
        put(at, static_cast<float>(value));
    }
  }
  return bytes;
}

GuardedBytes::GuardedBytes(std::size_t bytes) : bytes_(bytes + 2 * margin, canary) {}

bool GuardedBytes::intact() const {
  const auto whole = [](std::byte b) { return b == canary; };
  return std::all_of(bytes_.begin(), bytes_.begin() + margin, whole) &&
         std::all_of(bytes_.end() - margin, bytes_.end(), whole);
}

}  // namespace fabring::fixture

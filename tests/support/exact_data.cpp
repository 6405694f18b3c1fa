#include "tests/support/exact_data.hpp"

#include "tests/support/fake_device.hpp"
#include "tests/support/noise.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace fabring::fixture {
namespace {

constexpr std::byte canary{0x5C};

// A small whole number in `bits` bits, so many of them for the fraction: exponent of the top bit, the rest as fraction.
unsigned small_float(std::int64_t value, int bits, int fraction_bits, int bias) {
  if (value == 0) return 0;
  const auto magnitude = static_cast<std::uint32_t>(value < 0 ? -value : value);
  const int top = std::bit_width(magnitude) - 1;
  const std::uint32_t fraction =
      top <= fraction_bits ? magnitude << (fraction_bits - top) : magnitude >> (top - fraction_bits);
  return (value < 0 ? 1u << (bits - 1) : 0u) | static_cast<unsigned>(top + bias) << fraction_bits |
         (fraction & ((1u << fraction_bits) - 1));
}

}  // namespace

void store(DataType type, std::byte* at, std::int64_t value) {
  switch (type) {
    case DataType::float64:
      return put(at, static_cast<double>(value));
    case DataType::float32:
      return put(at, static_cast<float>(value));
    case DataType::float16:
      return put(at, static_cast<std::uint16_t>(small_float(value, 16, 10, 15)));
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
    case DataType::float8_e4m3:
      return put(at, static_cast<std::uint8_t>(small_float(value, 8, 3, 7)));
    case DataType::float8_e5m2:
      return put(at, static_cast<std::uint8_t>(small_float(value, 8, 2, 15)));
    case DataType::boolean:
      return put(at, static_cast<std::uint8_t>(value != 0));
  }
}

std::int64_t input_value(DataType type, ReduceOp op, int rank, int ranks, std::size_t index, std::uint64_t salt) {
  const std::uint64_t noise = mixed(salt + 1, index);
  const auto own = static_cast<std::int64_t>(mixed(noise, static_cast<std::uint64_t>(rank)) % 8);
  const auto turn = static_cast<int>((static_cast<std::uint64_t>(rank) + noise) % static_cast<std::uint64_t>(ranks));
  // 8-bit floats count to 8 or 16: eight ranks of each place have a 1, or not. Averages of more ranks are 0.
  const bool counts_to_eight = type == DataType::float8_e4m3 || type == DataType::float8_e5m2;
  if (type == DataType::boolean) return own % 2;
  switch (op) {
    case ReduceOp::prod:  // up to three ranks have a 2
      return turn < 3 ? 2 : 1;
    case ReduceOp::sum:
    case ReduceOp::premul_sum:
    case ReduceOp::user:
      return counts_to_eight ? (turn < 8 ? own % 2 : 0) : own;
    case ReduceOp::avg:  // the ranks' deviations cancel
      if (counts_to_eight) return ranks <= 8 ? static_cast<std::int64_t>(noise % 2) : 0;
      return static_cast<std::int64_t>(ranks <= 16 ? 2 + noise % 4 : 1 + noise % 3) +
             (rank == ranks - 1 && ranks % 2 == 1 ? 0
              : rank % 2 == 0                     ? 1
                                                  : -1);
    case ReduceOp::logical_and:  // mostly true, and mostly not
      return turn == 0 ? own : 1;
    case ReduceOp::logical_or:
      return turn == 0 ? own : 0;
    case ReduceOp::bitwise_and:  // some bits are common to all
      return own | static_cast<std::int64_t>(noise % 8);
    default:
      return own;
  }
}

std::int64_t output_value(DataType type, ReduceOp op, int ranks, std::size_t index, std::uint64_t salt) {
  std::int64_t result = input_value(type, op, 0, ranks, index, salt);
  const bool logical = op == ReduceOp::logical_and || op == ReduceOp::logical_or || op == ReduceOp::logical_xor;
  if (logical) result = result != 0 ? 1 : 0;
  for (int rank = 1; rank < ranks; ++rank) {
    const std::int64_t value = input_value(type, op, rank, ranks, index, salt);
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::avg:
      case ReduceOp::premul_sum:
      case ReduceOp::user:
        result += value;  // booleans are stored as whether it is 0
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
      case ReduceOp::logical_and:
        result &= value != 0 ? 1 : 0;
        break;
      case ReduceOp::logical_or:
        result |= value != 0 ? 1 : 0;
        break;
      case ReduceOp::logical_xor:
        result ^= value != 0 ? 1 : 0;
        break;
      case ReduceOp::bitwise_and:
        result &= value;
        break;
      case ReduceOp::bitwise_or:
        result |= value;
        break;
      case ReduceOp::bitwise_xor:
        result ^= value;
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
    store(type, bytes.data() + i * element, input_value(type, op, rank, ranks, i, salt));
  return bytes;
}

std::vector<std::byte> output_of(DataType type, ReduceOp op, int ranks, std::size_t count, std::uint64_t salt) {
  const std::size_t element = size_of(type);
  std::vector<std::byte> bytes(count * element);
  for (std::size_t i = 0; i < count; ++i)
    store(type, bytes.data() + i * element, output_value(type, op, ranks, i, salt));
  return bytes;
}

GuardedBytes::GuardedBytes(std::size_t bytes)
    : bytes_(bytes + 2 * margin, canary), size_(bytes), address_(bytes_.data() + margin), seen_(address_) {}

GuardedBytes::GuardedBytes(std::size_t bytes, FakeDevice& device)
    : size_(bytes), address_(*device.allocate(0, bytes + 2 * margin) + margin), seen_(device.see(address_)) {
  std::fill(seen_ - margin, seen_ + bytes + margin, canary);
}

bool GuardedBytes::intact() const {
  const auto whole = [](std::byte b) { return b == canary; };
  return std::all_of(seen_ - margin, seen_, whole) && std::all_of(seen_ + size_, seen_ + size_ + margin, whole);
}

}  // namespace fabring::fixture

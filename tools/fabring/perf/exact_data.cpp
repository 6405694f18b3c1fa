#include "tools/fabring/perf/exact_data.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "runtime/base/reduce_ops.hpp"

namespace fabring::tools {
namespace {

// Largest whole number up to which all are exact: 2^(bits of the significand), or the type's maximum. Kept below 2^24
// for the wide ones: nothing is gained from more.
std::int64_t exact_limit(DataType type) {
  switch (type) {
    case DataType::float64:
    case DataType::float32:
    case DataType::int32:
    case DataType::int64:
    case DataType::uint32:
    case DataType::uint64:
      return 1 << 24;
    case DataType::float16:
      return 1 << 11;
    case DataType::bfloat16:
      return 1 << 8;
    case DataType::int8:
      return 127;
    case DataType::uint8:
      return 255;
    case DataType::int16:
      return 32767;
    case DataType::uint16:
      return 65535;
    case DataType::float8_e4m3:
      return 1 << 4;
    case DataType::float8_e5m2:
      return 1 << 3;
    case DataType::boolean:
      return 1;
  }
  return 1;
}

// Booleans know logical operations only; the others are these by another name. The caller's own is an or, as its sum.
std::optional<ReduceOp> meaning(DataType type, std::optional<ReduceOp> op) {
  if (!op || type != DataType::boolean) return op;
  return boolean_operation(*op == ReduceOp::user ? ReduceOp::sum : *op);
}

std::uint32_t mixed(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  std::uint64_t x = a * 0x9e3779b97f4a7c15ULL ^ b * 0xc2b2ae3d27d4eb4fULL ^ c * 0x165667b19e3779f9ULL;
  x ^= x >> 32;  // finaliser of splitmix64, shortened
  x *= 0xd6e8feb86659fd93ULL;
  x ^= x >> 32;
  return static_cast<std::uint32_t>(x);
}

template <class T>
void store(T value, std::byte* to) {
  std::memcpy(to, &value, sizeof(value));
}

// A whole number of few enough significant bits, as a float with so many bits of fraction behind the hidden one.
unsigned small_float(std::int64_t value, int bits, int fraction_bits, int bias) {
  if (value == 0) return 0;
  const auto magnitude = static_cast<std::uint64_t>(value < 0 ? -value : value);
  const int exponent = static_cast<int>(std::bit_width(magnitude)) - 1;
  const std::uint64_t fraction =
      exponent <= fraction_bits ? magnitude << (fraction_bits - exponent) : magnitude >> (exponent - fraction_bits);
  return (value < 0 ? 1U << (bits - 1) : 0U) | static_cast<unsigned>(exponent + bias) << fraction_bits |
         static_cast<unsigned>(fraction & ((1U << fraction_bits) - 1));
}

std::int64_t combined(ReduceOp op, std::int64_t a, std::int64_t b) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
    case ReduceOp::premul_sum:
    case ReduceOp::user:
      return a + b;
    case ReduceOp::prod:
      return a * b;
    case ReduceOp::min:
      return std::min(a, b);
    case ReduceOp::max:
      return std::max(a, b);
    case ReduceOp::logical_and:  // of zeros and ones
    case ReduceOp::bitwise_and:
      return a & b;
    case ReduceOp::logical_or:
    case ReduceOp::bitwise_or:
      return a | b;
    case ReduceOp::logical_xor:
    case ReduceOp::bitwise_xor:
      return a ^ b;
  }
  return 0;
}

}  // namespace

void encode(DataType type, std::int64_t value, std::byte* to) {
  switch (type) {
    case DataType::float64:
      return store(static_cast<double>(value), to);
    case DataType::float32:
      return store(static_cast<float>(value), to);
    case DataType::float16:
      return store(static_cast<std::uint16_t>(small_float(value, 16, 10, 15)), to);
    case DataType::bfloat16:
      return store(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16), to);
    case DataType::int8:
      return store(static_cast<std::int8_t>(value), to);
    case DataType::int16:
      return store(static_cast<std::int16_t>(value), to);
    case DataType::int32:
      return store(static_cast<std::int32_t>(value), to);
    case DataType::int64:
      return store(value, to);
    case DataType::uint8:
      return store(static_cast<std::uint8_t>(value), to);
    case DataType::uint16:
      return store(static_cast<std::uint16_t>(value), to);
    case DataType::uint32:
      return store(static_cast<std::uint32_t>(value), to);
    case DataType::uint64:
      return store(static_cast<std::uint64_t>(value), to);
    case DataType::float8_e4m3:
      return store(static_cast<std::uint8_t>(small_float(value, 8, 3, 7)), to);
    case DataType::float8_e5m2:
      return store(static_cast<std::uint8_t>(small_float(value, 8, 2, 15)), to);
    case DataType::boolean:
      return store(static_cast<std::uint8_t>(value != 0), to);
  }
}

ExactData::ExactData(DataType type, std::optional<ReduceOp> op, int rank, int ranks, std::uint32_t seed)
    : type_(type), op_(meaning(type, op)), rank_(rank), ranks_(ranks), seed_(seed), limit_(exact_limit(type)) {}

std::int64_t ExactData::input(int rank, std::size_t index) const {
  const std::size_t i = index % period;
  const auto r = static_cast<std::uint64_t>(rank);
  const std::uint32_t shared = mixed(i, 0, seed_ + 1U), own = mixed(i, r + 1, seed_);
  if (!op_) return own % (limit_ + 1);
  switch (*op_) {
    case ReduceOp::sum:
    case ReduceOp::user:
      return summand(limit_, own, shared, rank);
    case ReduceOp::premul_sum:
      return summand(limit_ / premul_factor, own, shared, rank);
    case ReduceOp::avg: {
      // A common value, and deviations that cancel in pairs of ranks: the sum is a multiple of the number of ranks. Who
      // is in no pair is another rank in every place, so that the input of none is the result everywhere.
      const auto ranks = static_cast<std::uint64_t>(ranks_);
      const std::uint64_t turned = (r + shared / 2) % ranks;
      const std::uint64_t pairs = std::min(ranks / 2, static_cast<std::uint64_t>(limit_));
      if (turned / 2 >= pairs) return average(i);
      return turned % 2 == 0 ? average(i) + deviation(i) : average(i) - deviation(i);
    }
    case ReduceOp::prod: {
      const auto bits = static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(limit_))) - 1;
      const std::int64_t most_twos = std::min<std::int64_t>({6, bits, ranks_});
      const std::int64_t twos = shared % (most_twos + 1);
      return (rank + shared / 16) % ranks_ < twos ? 2 : 1;
    }
    case ReduceOp::min:
    case ReduceOp::max: {
      // Up to a ceiling of the place: among many ranks, some would always have the most there is.
      const std::int64_t most = std::min<std::int64_t>(100, limit_);
      const std::int64_t value = own % (shared % (most + 1) + 1);
      return op_ == ReduceOp::max ? value : most - value;
    }
    // In every other place only one rank, if any, decides: among many, chance would always give the same.
    case ReduceOp::logical_and:
      return shared % 2 == 0 ? own % 2 : shared / 2 % 3 == 0 || shared / 8 % ranks_ != r ? 1 : 0;
    case ReduceOp::logical_or:
      return shared % 2 == 0 ? own % 2 : shared / 2 % 3 == 0 || shared / 8 % ranks_ != r ? 0 : 1;
    case ReduceOp::logical_xor:
      return own % 2;
    case ReduceOp::bitwise_and:
      return (own | shared) & all_bits();
    case ReduceOp::bitwise_or:
      return own & shared & all_bits();
    case ReduceOp::bitwise_xor:
      return own & all_bits();
  }
  return 0;
}

std::int64_t ExactData::summand(std::int64_t limit, std::uint32_t own, std::uint32_t shared, int rank) const {
  const std::int64_t share = std::min<std::int64_t>(limit / ranks_, 97);
  if (share >= 1) return own % (share + 1);
  // More ranks than the type can count: in each place only some contribute, in every other half as many.
  const std::int64_t stride = ((ranks_ + limit - 1) / limit) << shared % 2;
  return (rank + shared / 2) % stride == 0 ? 1 : 0;
}

// The longest row of ones that is exact.
std::int64_t ExactData::all_bits() const {
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(limit_) + 1)) - 1;
}

std::int64_t ExactData::average_share() const {
  return std::min<std::int64_t>(limit_ / (2 * std::int64_t{ranks_}), 48);
}

std::int64_t ExactData::average(std::size_t i) const {
  if (ranks_ > limit_) return 0;  // the sum of ones is not exact
  return average_share() + mixed(i, 0, seed_ + 1U) % 2;
}

// As large as leaves every input 0 or more, but for ranks that the type cannot count: these have ones and minus ones,
// which an unsigned type wraps to.
std::int64_t ExactData::deviation(std::size_t i) const {
  if (ranks_ > limit_) return 1;
  const std::int64_t share = average_share();
  return share == 0 ? average(i) : mixed(i, 0, seed_ + 1U) / 64 % (share + 1);
}

std::int64_t ExactData::result(std::size_t index) const {
  if (op_ == ReduceOp::avg) return average(index % period);
  std::int64_t value = input(0, index);
  for (int rank = 1; rank < ranks_; ++rank) {
    const std::int64_t next = input(rank, index);
    value = combined(*op_, value, next);
  }
  return op_ == ReduceOp::premul_sum ? value * premul_factor : value;
}

void ExactData::fill(void* buffer, std::size_t count) const {
  auto* bytes = static_cast<std::byte*>(buffer);
  const std::size_t element = size_of(type_), made = std::min(count, period);
  for (std::size_t i = 0; i < made; ++i) encode(type_, input(rank_, i), bytes + i * element);
  const std::size_t one_period = made * element;
  for (std::size_t left = (count - made) * element; left != 0;) {  // a period at a time comes from the cache
    const std::size_t length = std::min(one_period, left);
    std::memcpy(bytes + count * element - left, bytes, length);
    left -= length;
  }
}

std::size_t ExactData::wrong_results(const void* buffer, std::size_t count) const {
  return differences([this](std::size_t i) { return result(i); }, buffer, count);
}
std::size_t ExactData::wrong_inputs(const void* buffer, std::size_t count) const {
  return differences([this](std::size_t i) { return input(rank_, i); }, buffer, count);
}

template <class Value>
std::size_t ExactData::differences(Value&& value, const void* buffer, std::size_t count) const {
  const std::size_t element = size_of(type_), total = count * element;
  std::vector<std::byte> right(std::min(count, period) * element);
  for (std::size_t at = 0; at < right.size(); at += element) encode(type_, value(at / element), &right[at]);
  const auto* bytes = static_cast<const std::byte*>(buffer);
  std::size_t wrong = 0;
  for (std::size_t at = 0; at < total; at += right.size()) {
    const std::size_t length = std::min(right.size(), total - at);
    if (std::memcmp(bytes + at, right.data(), length) == 0) continue;
    for (std::size_t i = 0; i < length; i += element)
      if (std::memcmp(bytes + at + i, right.data() + i, element) != 0) ++wrong;
  }
  return wrong;
}

void fill_stable(void* buffer, std::size_t count, DataType type, ReduceOp op) {
  const std::size_t element = size_of(type);
  const bool ones = op == ReduceOp::prod || op == ReduceOp::logical_and || op == ReduceOp::bitwise_and;
  if (!ones || count == 0) {
    std::memset(buffer, 0, count * element);
    return;
  }
  auto* bytes = static_cast<std::byte*>(buffer);
  encode(type, 1, bytes);
  for (std::size_t done = 1; done < count; done *= 2)  // doubles what is there
    std::memcpy(bytes + done * element, bytes, std::min(done, count - done) * element);
}

}  // namespace fabring::tools

#pragma once
// Data whose reductions are exact in every type, so that a result is right or wrong and never "close": small whole
// numbers, whose sums stay below 256 (8-bit integers wrap), whose products are small powers of two and whose averages
// are whole, those of an average below 128; of up to 36 ranks. 8-bit floats and booleans, which cannot count so far,
// have zeros and ones. The operation `user` is taken to add.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fabring/types.hpp"

namespace fabring::fixture {

class FakeDevice;

/// Writes a small whole number as one element.
void store(DataType type, std::byte* at, std::int64_t value);

/// What rank `rank` of `ranks` puts in at `index`, and what comes out; supports(type, op). `salt` makes operations
/// differ from each other.
std::int64_t input_value(DataType type, ReduceOp op, int rank, int ranks, std::size_t index, std::uint64_t salt);
std::int64_t output_value(DataType type, ReduceOp op, int ranks, std::size_t index, std::uint64_t salt);

std::vector<std::byte> input_of(DataType type, ReduceOp op, int rank, int ranks, std::size_t count, std::uint64_t salt);
std::vector<std::byte> output_of(DataType type, ReduceOp op, int ranks, std::size_t count, std::uint64_t salt);

/// A caller's buffer in a test: bytes between canaries, aligned for every type.
class GuardedBytes {
 public:
  explicit GuardedBytes(std::size_t bytes);
  /// In memory of a device.
  GuardedBytes(std::size_t bytes, FakeDevice& device);
  /// What an operation is given, and where the test sees the same bytes.
  std::byte* address() { return address_; }
  std::byte* data() { return seen_; }
  std::size_t size() const { return size_; }
  std::span<std::byte> span() { return {address(), size()}; }
  bool intact() const;

 private:
  static constexpr std::size_t margin = 64;
  std::vector<std::byte> bytes_;
  std::size_t size_;
  std::byte* address_;
  std::byte* seen_;
};

}  // namespace fabring::fixture

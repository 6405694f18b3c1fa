#include "checked_vector.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace rank_program {
namespace {

constexpr int guard_byte = 0x5a;

template <class F>
auto with_type(fabring::DataType type, F&& run) {
  switch (type) {
    case fabring::DataType::float64:
      return run(double{});
    case fabring::DataType::int32:
      return run(std::int32_t{});
    case fabring::DataType::int64:
      return run(std::int64_t{});
    case fabring::DataType::uint8:
      return run(std::uint8_t{});
    default:
      return run(float{});
  }
}

}  // namespace

template <class T>
void CheckedVector::fill_as(int rank) {
  T values[period];
  for (std::size_t phase = 0; phase < period; ++phase) values[phase] = static_cast<T>(base(phase) + rank);
  T* in = reinterpret_cast<T*>(in_.get());
  for (std::size_t i = 0, phase = 0; i < count_; ++i, phase = phase + 1 == period ? 0 : phase + 1)
    in[i] = values[phase];
}

template <class T>
std::optional<std::size_t> CheckedVector::first_wrong_as(int ranks) const {
  T values[period];
  for (std::size_t phase = 0; phase < period; ++phase) {
    std::int64_t right = base(phase);  // min
    if (op_ == fabring::ReduceOp::sum) right = right * ranks + std::int64_t{ranks} * (ranks - 1) / 2;
    if (op_ == fabring::ReduceOp::max) right += ranks - 1;
    values[phase] = static_cast<T>(right);
  }
  const std::byte* bytes = in_place_ ? in_.get() : out_.get();
  const T* out = reinterpret_cast<const T*>(bytes);
  for (std::size_t i = 0, phase = 0; i < count_; ++i, phase = phase + 1 == period ? 0 : phase + 1)
    if (out[i] != values[phase]) return i;
  for (std::size_t i = 0; i < guard * sizeof(T); ++i)
    if (bytes[count_ * sizeof(T) + i] != std::byte{guard_byte}) return count_ + i / sizeof(T);
  return std::nullopt;
}

CheckedVector::Memory CheckedVector::memory(std::size_t bytes) const {
  if (mapped_ != nullptr) {
    const auto buffer = std::make_shared<fabring::MappedBuffer>(mapped_->allocate(bytes).value());
    return {buffer, buffer->data()};
  }
  constexpr std::size_t line = 64;
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(line, (bytes + line - 1) / line * line));
  if (memory == nullptr) std::abort();
  return {memory, [](std::byte* at) { std::free(at); }};
}

void CheckedVector::fill(std::size_t count, int rank, std::uint64_t step, bool in_place) {
  const std::size_t element = fabring::size_of(type_);
  const std::size_t bytes = (count + guard) * element;
  if (bytes > room_) {
    room_ = bytes;
    in_ = memory(bytes);
    out_ = memory(bytes);
  }
  count_ = count;
  step_ = step;
  in_place_ = in_place;
  std::memset(out_.get(), guard_byte, bytes);
  std::memset(in_.get() + count * element, guard_byte, guard * element);
  with_type(type_, [&](auto zero) { fill_as<decltype(zero)>(rank); });
}

std::optional<std::size_t> CheckedVector::first_wrong(int ranks) const {
  return with_type(type_, [&](auto zero) { return first_wrong_as<decltype(zero)>(ranks); });
}

}  // namespace rank_program

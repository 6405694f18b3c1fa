#pragma once
// BufferPlace: a buffer of a rank in mapped or in ordinary memory, among bytes that must stay as they are.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/engine/engine_core.hpp"

namespace fabring::fixture {

/// Bytes somewhere inside mapped or ordinary memory, with others around them that must stay.
class BufferPlace {
 public:
  BufferPlace(EngineCore& engine, const std::vector<std::byte>& bytes, bool mapped, std::size_t offset)
      : offset_(offset), size_(bytes.size()), before_(bytes.size() + 2 * offset, std::byte{0x5a}) {
    std::copy(bytes.begin(), bytes.end(), before_.begin() + static_cast<std::ptrdiff_t>(offset));
    if (mapped) {
      block_ = *engine.mapped().allocate(before_.size());
      memory_ = block_->data();
      EXPECT_TRUE(block_->shared());
    } else {
      ordinary_.resize(before_.size());
      memory_ = ordinary_.data();
    }
    std::copy(before_.begin(), before_.end(), memory_);
  }
  std::byte* data() const { return memory_ + offset_; }
  /// Holds `expected`, and nothing around it has changed.
  bool holds(const std::vector<std::byte>& expected) const {
    const std::byte* const original = before_.data();
    return std::equal(data(), data() + size_, expected.data()) && std::equal(memory_, data(), original) &&
           std::equal(data() + size_, data() + size_ + offset_, original + offset_ + size_);
  }

 private:
  std::size_t offset_, size_;
  std::vector<std::byte> before_;
  std::shared_ptr<MappedBlock> block_;
  std::vector<std::byte> ordinary_;
  std::byte* memory_ = nullptr;
};

}  // namespace fabring::fixture

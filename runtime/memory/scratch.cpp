#include "runtime/memory/scratch.hpp"

#include <algorithm>
#include <cstdlib>

namespace fabring {
namespace {
constexpr std::size_t page = 4096;
}

Scratch::~Scratch() {
  for (auto& [bytes, blocks] : kept_)
    for (std::byte* block : blocks) free(block, bytes);
}

std::byte* Scratch::take(std::size_t bytes) {
  std::byte* const block = source_ ? source_->allocate(bytes) : nullptr;
  return block != nullptr ? block : static_cast<std::byte*>(std::aligned_alloc(page, bytes));
}

void Scratch::free(std::byte* block, std::size_t bytes) {
  if (!source_ || !source_->release(block, bytes)) std::free(block);
}

std::size_t Scratch::rounded(std::size_t bytes) { return (bytes + page - 1) / page * page; }

std::byte* Scratch::borrow(std::size_t bytes, bool beyond_budget) {
  bytes = rounded(bytes);
  if (lent_ + bytes > budget_ && !beyond_budget) return nullptr;
  std::byte* const block = find(bytes);
  if (block != nullptr) lent_ += bytes;
  return block;
}

bool Scratch::promise(std::size_t bytes, bool beyond_budget) {
  bytes = rounded(bytes);
  if (lent_ + bytes > budget_ && !beyond_budget) return false;
  lent_ += bytes;
  return true;
}

std::byte* Scratch::keep_promise(std::size_t bytes) { return find(rounded(bytes)); }

std::byte* Scratch::find(std::size_t bytes) {
  auto& fitting = kept_[bytes];
  if (!fitting.empty()) {
    std::byte* const block = fitting.back();
    fitting.pop_back();
    return block;
  }
  // Make room by dropping kept blocks of other sizes.
  for (auto& [size, blocks] : kept_) {
    while (held_ + bytes > budget_ && !blocks.empty()) {
      free(blocks.back(), size);
      blocks.pop_back();
      held_ -= size;
    }
  }
  std::byte* const block = take(bytes);
  if (block != nullptr) held_ += bytes;
  most_held_ = std::max(most_held_, held_);
  return block;
}

void Scratch::give_back(std::byte* block, std::size_t bytes) {
  bytes = rounded(bytes);
  lent_ -= bytes;
  if (held_ > budget_) {  // borrowed beyond the budget
    free(block, bytes);
    held_ -= bytes;
    return;
  }
  kept_[bytes].push_back(block);
}

void Scratch::drop(std::byte* block, std::size_t bytes) {
  bytes = rounded(bytes);
  lent_ -= bytes;
  held_ -= bytes;
  free(block, bytes);
}

}  // namespace fabring

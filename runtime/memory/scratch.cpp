#include "runtime/memory/scratch.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>

namespace fabring {
namespace {

constexpr std::size_t page = 4096;

// Four sizes for each power of two: at most a quarter of a block is of no use.
std::size_t rounded_to_class(std::size_t bytes) {
  const std::size_t step = std::max(page, std::bit_floor(bytes) / 4);
  return (bytes + step - 1) / step * step;
}

}  // namespace

Scratch::~Scratch() {
  for (auto& [bytes, blocks] : kept_)
    for (std::byte* block : blocks) free(block, bytes);
}

std::byte* Scratch::take(std::size_t bytes) {
  std::byte* const block = source_ ? source_->allocate(bytes) : nullptr;
  return block != nullptr ? block : static_cast<std::byte*>(std::aligned_alloc(page, bytes));
}

void Scratch::free(std::byte* block, std::size_t bytes) {
  sizes_.erase(block);
  if (!source_ || !source_->release(block, bytes)) std::free(block);
}

std::size_t Scratch::rounded(std::size_t bytes) { return (bytes + page - 1) / page * page; }

// May a block of this size be lent for what is counted as so many bytes so far?
bool Scratch::may_be(std::size_t size, std::size_t bytes) const {
  return size == bytes || lent_ - bytes + size <= budget_;
}

std::byte* Scratch::borrow(std::size_t bytes, bool beyond_budget) {
  if (!promise(bytes, beyond_budget)) return nullptr;
  std::byte* const block = keep_promise(bytes);
  if (block == nullptr) release_promise(bytes);
  return block;
}

bool Scratch::promise(std::size_t bytes, bool beyond_budget) {
  bytes = rounded(bytes);
  if (lent_ + bytes > budget_ && !beyond_budget) return false;
  lent_ += bytes;
  asked_ += bytes;
  return true;
}

std::byte* Scratch::keep_promise(std::size_t bytes) {
  bytes = rounded(bytes);
  std::size_t size = bytes;
  std::byte* const block = find(bytes, size);
  if (block != nullptr) lent_ += size - bytes;
  return block;
}

std::byte* Scratch::find(std::size_t bytes, std::size_t& size) {
  if (std::byte* const kept = find_kept(bytes, 2 * bytes, size); kept != nullptr) return kept;
  const std::size_t wanted = may_be(rounded_to_class(bytes), bytes) ? rounded_to_class(bytes) : bytes;
  // Rather one that is much too long than that others are freed for it.
  if (held_ + wanted > budget_)
    if (std::byte* const kept = find_kept(bytes, std::numeric_limits<std::size_t>::max(), size); kept != nullptr)
      return kept;
  size = wanted;
  return make(wanted);
}

std::byte* Scratch::find_kept(std::size_t bytes, std::size_t most, std::size_t& size) {
  for (auto kept = kept_.lower_bound(bytes); kept != kept_.end() && kept->first <= most; ++kept) {
    if (kept->second.empty() || !may_be(kept->first, bytes)) continue;
    std::byte* const block = kept->second.back();
    kept->second.pop_back();
    size = kept->first;
    return block;
  }
  return nullptr;
}

// Makes room by freeing kept blocks of other sizes, the shortest first, which serve the fewest.
std::byte* Scratch::make(std::size_t bytes) {
  for (auto& [size, blocks] : kept_) {
    while (held_ + bytes > budget_ && !blocks.empty()) {
      free(blocks.back(), size);
      blocks.pop_back();
      held_ -= size;
    }
  }
  std::byte* const block = take(bytes);
  if (block == nullptr) return nullptr;
  sizes_[block] = bytes;
  held_ += bytes;
  most_held_ = std::max(most_held_, held_);
  return block;
}

void Scratch::give_back(std::byte* block, std::size_t bytes) {
  asked_ -= rounded(bytes);
  bytes = sizes_.at(block);
  lent_ -= bytes;
  if (held_ > budget_) {  // borrowed beyond the budget
    free(block, bytes);
    held_ -= bytes;
    return;
  }
  kept_[bytes].push_back(block);
}

void Scratch::drop(std::byte* block, std::size_t bytes) {
  asked_ -= rounded(bytes);
  bytes = sizes_.at(block);
  lent_ -= bytes;
  held_ -= bytes;
  free(block, bytes);
}

}  // namespace fabring

#include "transports/shm/arena.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace fabring::shm {
namespace {

std::size_t whole_pages(std::size_t bytes) { return (bytes + page - 1) / page * page; }

}  // namespace

Result<std::shared_ptr<Arena>> Arena::create(std::size_t bytes) {
  auto memory = SharedMemory::create(page + whole_pages(bytes));
  if (!memory) return memory.error();
  return std::make_shared<Arena>(std::move(*memory));
}

Arena::Arena(SharedMemory memory) : memory_(std::move(memory)) {
  new (memory_.data()) ArenaHeader{};
  if (memory_.size() > page) free_.emplace(page, memory_.size() - page);
}

std::byte* Arena::allocate(std::size_t bytes) {
  bytes = whole_pages(std::max<std::size_t>(bytes, 1));
  std::lock_guard lock(mutex_);
  for (auto at = free_.begin(); at != free_.end(); ++at) {
    const auto [offset, length] = *at;
    if (length < bytes) continue;
    free_.erase(at);
    if (length > bytes) free_.emplace(offset + bytes, length - bytes);
    return memory_.data() + offset;
  }
  return nullptr;
}

bool Arena::release(std::byte* block, std::size_t bytes) {
  bytes = whole_pages(std::max<std::size_t>(bytes, 1));
  if (!holds(block, bytes)) return false;
  std::lock_guard lock(mutex_);
  auto at = free_.emplace(static_cast<std::size_t>(block - memory_.data()), bytes).first;
  if (const auto next = std::next(at); next != free_.end() && at->first + at->second == next->first) {
    at->second += next->second;
    free_.erase(next);
  }
  if (at == free_.begin()) return true;
  if (const auto before = std::prev(at); before->first + before->second == at->first) {
    before->second += at->second;
    free_.erase(at);
  }
  return true;
}

bool Arena::holds(const std::byte* at, std::size_t bytes) const {
  const std::byte* const begin = memory_.data() + page;
  const std::byte* const end = memory_.data() + memory_.size();
  return at >= begin && at <= end && bytes <= static_cast<std::size_t>(end - at);
}

std::optional<std::uint64_t> Arena::offset_of(std::span<const std::byte> bytes) const {
  if (!holds(bytes.data(), bytes.size())) return {};
  const auto offset = static_cast<std::size_t>(bytes.data() - memory_.data());
  std::lock_guard lock(mutex_);
  if (revoked_.empty()) return offset;
  auto after = revoked_.lower_bound(offset + bytes.size());
  if (after == revoked_.begin()) return offset;
  const auto before = std::prev(after);
  return before->first + before->second > offset ? std::nullopt : std::optional<std::uint64_t>(offset);
}

void Arena::revoke(std::span<std::byte> bytes) {
  if (!offset_of(bytes)) return;
  const auto offset = static_cast<std::size_t>(bytes.data() - memory_.data());
  const std::size_t first = offset / page * page;
  const std::size_t length = whole_pages(offset + bytes.size()) - first;
  void* const mapped =
      ::mmap(memory_.data() + first, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  std::lock_guard lock(mutex_);
  if (mapped != MAP_FAILED) revoked_.emplace(first, length);
}

}  // namespace fabring::shm

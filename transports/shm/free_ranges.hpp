#pragma once
// FreeRanges: which parts of a stretch of memory are free, as offsets. First fit; what is put back joins its
// neighbours. The caller sees to it that ranges are whole pages, and that one thread at a time is here.

#include <cstddef>
#include <map>
#include <optional>

namespace fabring::shm {

class FreeRanges {
 public:
  FreeRanges() = default;
  FreeRanges(std::size_t offset, std::size_t bytes) { put(offset, bytes); }

  /// The first stretch of `bytes` whose offset is a multiple of `alignment`.
  std::optional<std::size_t> take(std::size_t bytes, std::size_t alignment = 1) {
    for (auto at = free_.begin(); at != free_.end(); ++at) {
      const auto [begin, length] = *at;
      const std::size_t before = (alignment - begin % alignment) % alignment;
      if (length < before || length - before < bytes) continue;
      free_.erase(at);
      if (before > 0) free_.emplace(begin, before);
      if (length > before + bytes) free_.emplace(begin + before + bytes, length - before - bytes);
      return begin + before;
    }
    return {};
  }

  void put(std::size_t offset, std::size_t bytes) {
    if (bytes == 0) return;
    auto at = free_.emplace(offset, bytes).first;
    if (const auto next = std::next(at); next != free_.end() && at->first + at->second == next->first) {
      at->second += next->second;
      free_.erase(next);
    }
    if (at == free_.begin()) return;
    if (const auto before = std::prev(at); before->first + before->second == at->first) {
      before->second += at->second;
      free_.erase(at);
    }
  }

 private:
  std::map<std::size_t, std::size_t> free_;  // offset -> bytes, never adjacent
};

}  // namespace fabring::shm

#pragma once
// PageBuffer: memory for what is measured, from the start of a page.

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace fabring::tools {

struct FreePages {
  void operator()(std::byte* buffer) const { std::free(buffer); }
};
using PageBuffer = std::unique_ptr<std::byte, FreePages>;

/// At least `bytes`, not initialised; null when there is no memory.
inline PageBuffer page_buffer(std::size_t bytes) {
  constexpr std::size_t page = 4096;
  return PageBuffer(static_cast<std::byte*>(std::aligned_alloc(page, (bytes / page + 1) * page)));
}

}  // namespace fabring::tools

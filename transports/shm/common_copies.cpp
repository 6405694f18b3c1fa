#include "transports/shm/common_copies.hpp"

#include <utility>
#include <vector>

namespace fabring::shm {

struct CommonCopies::Blocks {
  Blocks(std::shared_ptr<Arena> of, std::size_t at_once) : arena(std::move(of)), most(at_once) {}
  ~Blocks() {
    for (const CommonCopy& block : free) arena->release(block.at, longest);
  }

  bool make_one() {
    std::byte* const at = arena->allocate(longest);
    const auto place = at != nullptr ? arena->place_of({at, longest}) : std::nullopt;
    if (!place) return false;
    free.push_back({at, place->offset});
    ++made;
    return true;
  }

  std::shared_ptr<Arena> arena;
  std::size_t most;
  std::vector<CommonCopy> free;  // the one that came back last is taken first: it is in the cache
  std::size_t made = 0;
};

CommonCopies::CommonCopies(std::shared_ptr<Arena> arena, std::size_t at_once)
    : blocks_(std::make_shared<Blocks>(std::move(arena), at_once)) {}

bool CommonCopies::has_memory() { return blocks_->made > 0 || blocks_->make_one(); }

std::shared_ptr<const CommonCopy> CommonCopies::take(std::size_t bytes) {
  Blocks& blocks = *blocks_;
  if (bytes > longest) return nullptr;
  if (blocks.free.empty() && (blocks.made == blocks.most || !blocks.make_one())) return nullptr;
  auto* const copy = new CommonCopy(blocks.free.back());
  blocks.free.pop_back();
  return {copy, [keep = blocks_](const CommonCopy* done) {
            keep->free.push_back(*done);
            delete done;
          }};
}

std::size_t CommonCopies::held_bytes() const { return blocks_->made * longest; }

}  // namespace fabring::shm

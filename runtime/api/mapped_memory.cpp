// What a program sees of MappedBlocks.

#include <map>
#include <mutex>
#include <new>

#include "fabring/communicator.hpp"
#include "fabring/memory.hpp"
#include "runtime/api/engine_of.hpp"
#include "runtime/engine/engine_core.hpp"

namespace fabring {

MappedBuffer::MappedBuffer(std::shared_ptr<MappedBlock> block)
    : block_(std::move(block)), data_(block_->data()), size_(block_->size()), shared_(block_->shared()) {}

Result<MappedBuffer> Engine::allocate(std::size_t bytes) {
  if (is_parents(core_->world())) return no_engine(core_->world());
  auto block = core_->mapped().allocate(bytes);
  if (!block) return block.error();
  return MappedBuffer(std::move(*block));
}

struct MappedResource::State {
  ForkOrigin origin;  // a child of fork() has none of it to give, and what it gives back is its parent's
  MappedBlocks blocks;
  std::mutex mutex;
  std::map<void*, std::shared_ptr<MappedBlock>> given;
};

MappedResource::MappedResource(Engine& engine)
    : state_(new State{engine.core_->world()->origin, engine.core_->mapped(), {}, {}}) {}

MappedResource::~MappedResource() = default;

void* MappedResource::do_allocate(std::size_t bytes, std::size_t alignment) {
  constexpr std::size_t page = 4096;
  if (alignment > page || !state_->origin.is_here()) throw std::bad_alloc();
  auto block = state_->blocks.allocate(bytes);
  if (!block) throw std::bad_alloc();
  std::lock_guard lock(state_->mutex);
  void* const memory = (*block)->data();
  state_->given.emplace(memory, std::move(*block));
  return memory;
}

void MappedResource::do_deallocate(void* memory, std::size_t, std::size_t) {
  if (!state_->origin.is_here()) return;
  std::shared_ptr<MappedBlock> block;
  std::lock_guard lock(state_->mutex);
  const auto at = state_->given.find(memory);
  if (at == state_->given.end()) return;
  block = std::move(at->second);
  state_->given.erase(at);
}

}  // namespace fabring

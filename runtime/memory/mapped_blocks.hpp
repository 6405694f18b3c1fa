#pragma once
// MappedBlocks: the memory that an engine has given to its program (Engine::allocate), from its endpoint's source where
// there is one. A block lives until the program and the operations that work on it have let go of it: a program may
// free memory while an operation is under way. Blocks may outlive the engine. A forked child that lets go of its
// parent's takes nothing from it. Any thread.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "fabring/status.hpp"
#include "runtime/base/maker_process.hpp"
#include "topology/host_files.hpp"
#include "transports/memory_source.hpp"

namespace fabring {

class MappedBlock;

class MappedBlocks {
 public:
  /// Null: ordinary memory. `files` say how much memory there is.
  explicit MappedBlocks(std::shared_ptr<MemorySource> source, HostFiles files = HostFiles());

  /// Of zeros, aligned to a page. Errors: out_of_memory, with the size and the limit, before the kernel kills somebody
  /// for it.
  Result<std::shared_ptr<MappedBlock>> allocate(std::size_t bytes);
  /// What the program has now.
  std::size_t bytes() const { return shared_->bytes.load(std::memory_order_relaxed); }
  /// Keeps the block that has this byte; null if none has.
  std::shared_ptr<const MappedBlock> keep(const void* at) const {
    const auto address = reinterpret_cast<std::uintptr_t>(at);
    const bool among_them = address >= shared_->lowest.load(std::memory_order_relaxed) &&
                            address < shared_->highest.load(std::memory_order_relaxed);
    return among_them ? find(at) : nullptr;
  }
  /// The same for an operation's buffers, which often are one.
  std::array<std::shared_ptr<const MappedBlock>, 2> keep(const void* in, const void* out) const {
    if (in == out) return {keep(in), nullptr};
    return {keep(in), keep(out)};
  }

 private:
  friend class MappedBlock;
  std::shared_ptr<const MappedBlock> find(const void* at) const;
  struct Shared {
    std::shared_ptr<MemorySource> source;
    const MakerProcess maker{};
    std::mutex mutex;
    std::map<std::uintptr_t, std::weak_ptr<MappedBlock>> blocks;  // by their beginning; under mutex
    std::atomic<std::size_t> bytes{0};
    // No block is outside of these, so that others are told apart without a lock.
    std::atomic<std::uintptr_t> lowest{UINTPTR_MAX}, highest{0};
  };
  std::shared_ptr<Shared> shared_;
  HostFiles files_;
};

class MappedBlock {
 public:
  MappedBlock(std::shared_ptr<MappedBlocks::Shared> owner, std::byte* data, std::size_t bytes, std::size_t asked);
  ~MappedBlock();
  MappedBlock(const MappedBlock&) = delete;
  MappedBlock& operator=(const MappedBlock&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return asked_; }  ///< as asked for
  bool shared() const { return owner_->source != nullptr; }

 private:
  friend class MappedBlocks;
  std::shared_ptr<MappedBlocks::Shared> owner_;
  std::byte* data_;
  std::size_t bytes_;  // whole pages
  std::size_t asked_;
};

}  // namespace fabring

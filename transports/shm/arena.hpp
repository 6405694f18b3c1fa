#pragma once
// Arena: memory of this rank that every peer of its node has mapped. What a peer sends to a receive that lies here is
// written there by the peer, without a copy on the way. Shared with the engine's Scratch, which may outlive the
// endpoint. Any thread.

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "transports/memory_source.hpp"
#include "transports/shm/layout.hpp"
#include "transports/shm/shared_memory.hpp"

namespace fabring::shm {

class Arena final : public MemorySource {
 public:
  /// Of `bytes` for blocks, besides its header.
  static Result<std::shared_ptr<Arena>> create(std::size_t bytes);
  explicit Arena(SharedMemory memory);

  std::byte* allocate(std::size_t bytes) override;
  bool release(std::byte* block, std::size_t bytes) override;

  /// Where peers find these bytes; empty if they cannot.
  std::optional<std::uint64_t> offset_of(std::span<const std::byte> bytes) const;
  /// Peers write there no more, whatever they still do: from now on the pages are this process's own, their contents
  /// undefined. For ever.
  void revoke(std::span<std::byte> bytes);

  ArenaHeader& header() const { return *reinterpret_cast<ArenaHeader*>(memory_.data()); }
  const SharedMemory& memory() const { return memory_; }

 private:
  bool holds(const std::byte* at, std::size_t bytes) const;

  SharedMemory memory_;
  mutable std::mutex mutex_;
  std::map<std::size_t, std::size_t> free_;     // offset -> bytes, never adjacent
  std::map<std::size_t, std::size_t> revoked_;  // likewise
};

}  // namespace fabring::shm

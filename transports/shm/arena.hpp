#pragma once
// Arena: memory of this rank that every peer of its node has mapped. What a peer sends to a receive that lies here is
// written there by the peer, without a copy on the way; what this rank sends from here a peer can read in its place.
// It has two parts: scratch, which the engine borrows (and which may outlive the endpoint), and the program's own
// memory (MappedSource). Pages exist once they are touched. Any thread.

#include <fcntl.h>
#include <sys/mman.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "runtime/base/maker_process.hpp"
#include "transports/memory_source.hpp"
#include "transports/shm/free_ranges.hpp"
#include "transports/shm/layout.hpp"
#include "transports/shm/shared_memory.hpp"

namespace fabring::shm {

/// What an arena needs of the system; tests have others.
struct ArenaSystem {
  std::size_t page = system_page();
  std::size_t step = MemorySource::step_bytes;  // of the program's memory so much is made at once
  bool pages_may_be_refused = shm::pages_may_be_refused();
  bool (*populate)(const SharedMemory& memory, std::size_t offset, std::size_t bytes) = shm::populate;
  void* (*map)(void* at, std::size_t bytes, int access, int flags, int fd, off_t offset) = ::mmap;
  int (*punch)(int fd, int mode, off_t offset, off_t bytes) = ::fallocate;
};

class Arena final : public MemorySource {
 public:
  /// Of so many bytes for scratch and for the program, besides its header.
  static Result<std::shared_ptr<Arena>> create(std::size_t scratch_bytes, std::size_t mapped_bytes = 0,
                                               const ArenaSystem& system = {});
  Arena(SharedMemory memory, std::size_t scratch_bytes, const ArenaSystem& system);

  std::size_t page() const { return system_.page; }

  // Scratch. Null also where the pages could not be had when they are touched. Released, it has none; a forked child
  // releases nothing.
  std::byte* allocate(std::size_t bytes) override;
  bool release(std::byte* block, std::size_t bytes) override;

  // The program's memory, of zeros and with its pages there. A forked child, which has it too, frees none of it.
  std::byte* allocate_mapped(std::size_t bytes, const MayGoOn& may_go_on = {});
  bool release_mapped(std::byte* block, std::size_t bytes);
  std::size_t mapped_limit() const { return memory_.size() - mapped_begin_; }

  /// Where peers find these bytes; empty if they cannot.
  std::optional<PlaceInArena> place_of(std::span<const std::byte> bytes) const;
  /// The same, if a message that lands there does no harm to others, and is worth it.
  std::optional<PlaceInArena> landing_place_of(std::span<const std::byte> bytes) const;
  /// Where peers find these bytes of the program's memory.
  std::optional<std::uint64_t> mapped_offset_of(std::span<const std::byte> bytes) const;
  /// Peers write there no more, whatever they still do: from now on the pages are this process's own, for ever. Where
  /// others may have a part of a page (place_of), that page stays as it is. Scratch is undefined afterwards; the
  /// program's memory keeps what is there, also what other threads write meanwhile. Where the kernel refuses, pages
  /// stay shared, but nobody is told of them, or given them, again.
  void revoke(std::span<std::byte> bytes);

  ArenaHeader& header() const { return *reinterpret_cast<ArenaHeader*>(memory_.data()); }
  const SharedMemory& memory() const { return memory_; }

 private:
  bool lies_in(std::span<const std::byte> bytes, std::size_t begin, std::size_t end) const;
  bool is_scratch(std::span<const std::byte> bytes) const { return lies_in(bytes, page(), mapped_begin_); }
  bool is_mapped(std::span<const std::byte> bytes) const { return lies_in(bytes, mapped_begin_, memory_.size()); }
  std::size_t offset_in_memory(const std::byte* at) const { return static_cast<std::size_t>(at - memory_.data()); }
  std::size_t whole_pages(std::size_t bytes) const { return (bytes + page() - 1) / page() * page(); }
  bool make_pages(std::size_t offset, std::size_t bytes);       // large ones where there are
  bool give_to_machine(std::size_t offset, std::size_t bytes);  // false: what is shared of it has its contents still
  bool give_mapped_to_machine(std::size_t offset, std::size_t bytes);
  void clear_shared(std::size_t offset, std::size_t bytes);
  bool revoked(std::size_t offset, std::size_t bytes) const;  // any of it; under mutex_

  const ArenaSystem system_;
  const MakerProcess maker_;
  SharedMemory memory_;
  std::size_t mapped_begin_;
  mutable std::mutex mutex_;
  FreeRanges scratch_;
  FreeRanges mapped_;
  using Ranges = std::map<std::size_t, std::size_t>;  // offset -> bytes, disjoint
  /// What is left of so many bytes.
  static Ranges without(const Ranges& taken, std::size_t offset, std::size_t bytes);
  /// Whole pages, none of them revoked yet; under mutex_.
  void take_from_peers(std::size_t offset, std::size_t bytes, bool keep_contents);
  /// All of a block but what is in `kept`; under mutex_.
  static void put_back(FreeRanges& free, std::size_t offset, std::size_t bytes, const Ranges& kept);
  Ranges revoked_;
  Ranges still_shared_;  // of these what the kernel did not take from the peers
};

/// The program's part of an arena as a source.
class MappedSource final : public MemorySource {
 public:
  explicit MappedSource(std::shared_ptr<Arena> arena) : arena_(std::move(arena)) {}
  std::byte* allocate(std::size_t bytes) override { return arena_->allocate_mapped(bytes); }
  std::byte* allocate_in_steps(std::size_t bytes, const MayGoOn& may_go_on) override {
    return arena_->allocate_mapped(bytes, may_go_on);
  }
  bool release(std::byte* block, std::size_t bytes) override { return arena_->release_mapped(block, bytes); }
  std::size_t limit() const override { return arena_->mapped_limit(); }

 private:
  std::shared_ptr<Arena> arena_;
};

}  // namespace fabring::shm

#include "transports/shm/arena.hpp"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <random>

namespace fabring::shm {
namespace {

constexpr std::size_t least_beside_others = 4 * page;  // less than a page of it may be its own

std::size_t whole(std::size_t bytes, std::size_t pages) { return (bytes + pages - 1) / pages * pages; }

// Pages of a mapping that is private become the process's own when they are written. Adding nothing changes no byte,
// also not one that another thread writes just now.
void make_own(std::byte* first, std::size_t bytes, std::size_t page) {
  for (std::size_t at = 0; at < bytes; at += page)
    std::atomic_ref(reinterpret_cast<unsigned char&>(first[at])).fetch_add(0, std::memory_order_relaxed);
}

}  // namespace

Result<std::shared_ptr<Arena>> Arena::create(std::size_t scratch_bytes, std::size_t mapped_bytes,
                                             const ArenaSystem& system) {
  scratch_bytes = whole(scratch_bytes, system.page);
  auto memory = SharedMemory::create(system.page + scratch_bytes + whole(mapped_bytes, system.page));
  if (!memory) return memory.error();
  if (!system.populate(*memory, 0, system.page))
    return Status(ErrorCode::out_of_memory, "shared memory: this machine has no memory left for a page of it");
  return std::make_shared<Arena>(std::move(*memory), scratch_bytes, system);
}

Arena::Arena(SharedMemory memory, std::size_t scratch_bytes, const ArenaSystem& system)
    : system_(system),
      memory_(std::move(memory)),
      mapped_begin_(page() + scratch_bytes),
      scratch_(page(), scratch_bytes),
      mapped_(mapped_begin_, memory_.size() - mapped_begin_) {
  std::random_device random;
  const std::uint64_t number = std::uint64_t{random()} << 32 | random();
  new (memory_.data()) ArenaHeader{.sleeping = 0, .mark = {number, reinterpret_cast<std::uint64_t>(&header().mark)}};
  if (mapped_limit() == 0) return;
  // The program may fork, and its child read what was there; and a core file need not have the holes.
  (void)::madvise(memory_.data() + mapped_begin_, mapped_limit(), MADV_DOFORK);
  (void)::madvise(memory_.data() + mapped_begin_, mapped_limit(), MADV_DONTDUMP);
}

// ---- blocks -------------------------------------------------------------------------------------------------------

std::byte* Arena::allocate(std::size_t bytes) {
  bytes = whole_pages(std::max<std::size_t>(bytes, 1));
  std::optional<std::size_t> offset;
  {
    std::lock_guard lock(mutex_);
    offset = scratch_.take(bytes);
  }
  if (!offset) return nullptr;
  std::byte* const block = memory_.data() + *offset;
  if (!system_.pages_may_be_refused || system_.populate(memory_, *offset, bytes)) return block;
  (void)release(block, bytes);
  return nullptr;
}

bool Arena::release(std::byte* block, std::size_t bytes) {
  bytes = whole_pages(std::max<std::size_t>(bytes, 1));
  if (!is_scratch({block, bytes})) return false;
  if (!maker_.is_this_one()) return true;  // it is the parent's, and so may be the lock
  const std::size_t offset = offset_in_memory(block);
  (void)give_to_machine(offset, bytes);
  std::lock_guard lock(mutex_);
  put_back(scratch_, offset, bytes, still_shared_);
  return true;
}

void Arena::put_back(FreeRanges& free, std::size_t offset, std::size_t bytes, const Ranges& kept) {
  for (const auto& [begin, length] : without(kept, offset, bytes)) free.put(begin, length);
}

Arena::Ranges Arena::without(const Ranges& taken, std::size_t offset, std::size_t bytes) {
  Ranges rest;
  std::size_t begin = offset;
  for (const auto& [from, length] : taken) {
    if (from + length <= begin || from >= offset + bytes) continue;
    if (from > begin) rest.emplace(begin, from - begin);
    begin = from + length;
  }
  if (begin < offset + bytes) rest.emplace(begin, offset + bytes - begin);
  return rest;
}

std::byte* Arena::allocate_mapped(std::size_t bytes, const MayGoOn& may_go_on) {
  bytes = whole_pages(std::max<std::size_t>(bytes, 1));
  std::optional<std::size_t> offset;
  {
    std::lock_guard lock(mutex_);
    if (bytes >= large_page) offset = mapped_.take(bytes, large_page);
    if (!offset) offset = mapped_.take(bytes);
  }
  if (!offset) return nullptr;
  std::byte* const block = memory_.data() + *offset;
  (void)::madvise(block, bytes, MADV_DODUMP);
  for (std::size_t at = 0; at < bytes; at += system_.step) {
    const std::size_t part = std::min(system_.step, bytes - at);
    if ((at == 0 || !may_go_on || may_go_on(bytes - at)) && make_pages(*offset + at, part)) continue;
    (void)give_mapped_to_machine(*offset, bytes);  // nobody has written to it
    std::lock_guard lock(mutex_);
    mapped_.put(*offset, bytes);
    return nullptr;
  }
  return block;
}

bool Arena::make_pages(std::size_t offset, std::size_t bytes) {
  make_large_pages(memory_, offset, bytes);
  return system_.populate(memory_, offset, bytes);
}

// A page that was revoked is never lent again: a stopped peer may still write to what lies beneath.
bool Arena::release_mapped(std::byte* block, std::size_t bytes) {
  bytes = whole_pages(std::max<std::size_t>(bytes, 1));
  if (!is_mapped({block, bytes})) return false;
  if (!maker_.is_this_one()) return true;  // it is the parent's, and so may be the lock
  const std::size_t offset = offset_in_memory(block);
  if (!give_mapped_to_machine(offset, bytes)) clear_shared(offset, bytes);
  std::lock_guard lock(mutex_);
  put_back(mapped_, offset, bytes, revoked_);
  return true;
}

bool Arena::give_to_machine(std::size_t offset, std::size_t bytes) {
  (void)::madvise(memory_.data() + offset, bytes, MADV_DONTNEED);  // of pages that have become private
  return system_.punch(memory_.memfd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                       static_cast<off_t>(bytes)) == 0;
}

bool Arena::give_mapped_to_machine(std::size_t offset, std::size_t bytes) {
  const bool punched = give_to_machine(offset, bytes);
  (void)::madvise(memory_.data() + offset, bytes, MADV_DONTDUMP);
  return punched;
}

// Where holes cannot be made (gVisor), since what is allocated next is of zeros.
void Arena::clear_shared(std::size_t offset, std::size_t bytes) {
  Ranges shared;
  {
    std::lock_guard lock(mutex_);
    shared = without(revoked_, offset, bytes);
  }
  for (const auto& [begin, length] : shared) std::memset(memory_.data() + begin, 0, length);
}

// ---- places -------------------------------------------------------------------------------------------------------

bool Arena::lies_in(std::span<const std::byte> bytes, std::size_t begin, std::size_t end) const {
  const std::byte* const first = memory_.data() + begin;
  const std::byte* const last = memory_.data() + end;
  return bytes.data() >= first && bytes.data() <= last && bytes.size() <= static_cast<std::size_t>(last - bytes.data());
}

bool Arena::revoked(std::size_t offset, std::size_t bytes) const {
  const auto after = revoked_.lower_bound(offset + bytes);
  if (after == revoked_.begin()) return false;
  const auto before = std::prev(after);
  return before->first + before->second > offset;
}

std::optional<PlaceInArena> Arena::place_of(std::span<const std::byte> bytes) const {
  const bool mapped = is_mapped(bytes);
  if (!mapped && !is_scratch(bytes)) return {};
  const std::size_t offset = offset_in_memory(bytes.data());
  std::lock_guard lock(mutex_);
  if (revoked(offset, bytes.size())) return {};
  return PlaceInArena{offset, mapped};
}

// The bytes at the two ends of what shares pages are told from the rest by the layout's pages (MessageEnds); where the
// kernel's are larger, what could be taken from a peer would not be what it writes to.
std::optional<PlaceInArena> Arena::landing_place_of(std::span<const std::byte> bytes) const {
  auto place = place_of(bytes);
  if (place && place->shares_pages && (page() != shm::page || bytes.size() < least_beside_others)) place.reset();
  return place;
}

std::optional<std::uint64_t> Arena::mapped_offset_of(std::span<const std::byte> bytes) const {
  if (!is_mapped(bytes)) return {};
  const auto place = place_of(bytes);
  return place ? std::optional(place->offset) : std::nullopt;
}

// A part of it may have been revoked before, from another peer whose landing shares a page with this one: the rest is
// what this peer may still write to.
void Arena::revoke(std::span<std::byte> bytes) {
  const bool shares_pages = is_mapped(bytes);
  if (bytes.empty() || (!shares_pages && !is_scratch(bytes))) return;
  const std::size_t begin = offset_in_memory(bytes.data()), end = begin + bytes.size();
  std::size_t first = begin / page() * page(), last = whole_pages(end);
  if (shares_pages) first = whole_pages(begin), last = end / page() * page();
  if (first >= last) return;
  std::lock_guard lock(mutex_);
  for (const auto& [from, length] : without(revoked_, first, last - first)) take_from_peers(from, length, shares_pages);
}

void Arena::take_from_peers(std::size_t offset, std::size_t bytes, bool keep_contents) {
  revoked_.emplace(offset, bytes);
  std::byte* const at = memory_.data() + offset;
  constexpr int access = PROT_READ | PROT_WRITE;
  void* const mapped = keep_contents ? system_.map(at, bytes, access, MAP_PRIVATE | MAP_FIXED, memory_.memfd(),
                                                   static_cast<off_t>(offset))
                                     : system_.map(at, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (mapped == MAP_FAILED) {  // of too many mappings, say
    still_shared_.emplace(offset, bytes);
  } else if (keep_contents) {
    make_own(at, bytes, page());
  }
}

}  // namespace fabring::shm

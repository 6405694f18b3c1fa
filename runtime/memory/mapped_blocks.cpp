#include "runtime/memory/mapped_blocks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "runtime/base/parse_value.hpp"
#include "topology/memory_left.hpp"

namespace fabring {
namespace {

constexpr std::size_t block_page = 4096;
constexpr std::size_t least_looked_up = 1 << 20;  // what is left is in a dozen files: for a small block too long to ask

std::uintptr_t address(const void* at) { return reinterpret_cast<std::uintptr_t>(at); }

std::byte* ordinary(std::size_t bytes, const MemorySource::MayGoOn& may_go_on) {
  constexpr std::size_t step = MemorySource::step_bytes;
  auto* const block = static_cast<std::byte*>(std::aligned_alloc(block_page, bytes));
  if (block == nullptr) return nullptr;
  for (std::size_t at = 0; at < bytes; at += step) {
    if (at > 0 && !may_go_on(bytes - at)) {
      std::free(block);
      return nullptr;
    }
    std::memset(block + at, 0, std::min(step, bytes - at));
  }
  return block;
}

Status too_little(std::size_t asked, std::size_t made, const MemoryLeft& left) {
  const std::string all = fmt::format("cannot allocate {}: ", size_text(asked));
  const std::string what_is_left = fmt::format("{} of memory are left, by {}", size_text(left.bytes), left.told_by);
  if (made == 0) return {ErrorCode::out_of_memory, all + what_is_left + "; allocate less, or give this process more"};
  return {ErrorCode::out_of_memory, fmt::format("{}after {} of it {}, since others take memory too; allocate less on "
                                                "each rank of this host, or give them more",
                                                all, size_text(made), what_is_left)};
}

}  // namespace

MappedBlock::MappedBlock(std::shared_ptr<MappedBlocks::Shared> owner, std::byte* data, std::size_t bytes,
                         std::size_t asked)
    : owner_(std::move(owner)), data_(data), bytes_(bytes), asked_(asked) {}

MappedBlock::~MappedBlock() {
  if (!owner_->maker.is_this_one()) {  // shared memory is the parent's, whose other threads may have held the lock
    if (owner_->source == nullptr) std::free(data_);
    return;
  }
  {
    std::lock_guard lock(owner_->mutex);  // before the memory is another's
    owner_->blocks.erase(address(data_));
  }
  owner_->bytes.fetch_sub(bytes_);
  if (owner_->source == nullptr) {
    std::free(data_);
  } else {
    (void)owner_->source->release(data_, bytes_);
  }
}

MappedBlocks::MappedBlocks(std::shared_ptr<MemorySource> source, HostFiles files)
    : shared_(std::make_shared<Shared>()), files_(std::move(files)) {
  shared_->source = std::move(source);
}

Result<std::shared_ptr<MappedBlock>> MappedBlocks::allocate(std::size_t asked) {
  const bool possible = asked <= std::numeric_limits<std::ptrdiff_t>::max() - block_page;
  const std::size_t bytes = possible ? (std::max<std::size_t>(asked, 1) + block_page - 1) / block_page * block_page : 0;
  std::byte* data = nullptr;
  const std::size_t allowed = shared_->source ? shared_->source->limit() : std::numeric_limits<std::size_t>::max();
  const bool look_up =
      bytes >= least_looked_up && bytes <= allowed - std::min<std::size_t>(shared_->bytes.load(), allowed);
  Status refused;
  // Ranks that begin together find the same memory free: each looks again while it takes its own.
  const auto enough_for = [&](std::size_t to_come) {
    if (!look_up) return true;
    if (const auto left = memory_left(files_); left && to_come > left->bytes)
      refused = too_little(asked, bytes - to_come, *left);
    return refused.ok();
  };
  if (possible && enough_for(bytes))
    data = shared_->source ? shared_->source->allocate_in_steps(bytes, enough_for) : ordinary(bytes, enough_for);
  if (!refused.ok()) return refused;
  if (data == nullptr) {
    const std::size_t limit = shared_->source ? shared_->source->limit() : 0, used = shared_->bytes.load();
    const std::string what = fmt::format("cannot allocate {} of memory that ranks share", size_text(asked));
    if (shared_->source == nullptr && !possible)
      return Status(ErrorCode::out_of_memory,
                    fmt::format("cannot allocate {}: that is more than a process can have", size_text(asked)));
    if (shared_->source == nullptr)
      return Status(ErrorCode::out_of_memory,
                    fmt::format("cannot allocate {}: this machine has no memory left for it", size_text(asked)));
    if (bytes == 0 || bytes > limit || bytes > limit - std::min(used, limit))
      return Status(ErrorCode::out_of_memory,
                    fmt::format("{}: {} of the {} that this rank may have are in use; free some, or raise "
                                "FABRING_MAPPED_BYTES",
                                what, size_text(used), size_text(limit)));
    return Status(ErrorCode::out_of_memory,
                  fmt::format("{}: this machine has no memory left, or none in one piece of the {} that this rank may "
                              "have (FABRING_MAPPED_BYTES), of which {} are in use",
                              what, size_text(limit), size_text(used)));
  }
  auto block = std::make_shared<MappedBlock>(shared_, data, bytes, asked);
  shared_->bytes.fetch_add(bytes);
  std::lock_guard lock(shared_->mutex);
  shared_->blocks[address(data)] = block;
  shared_->lowest.store(std::min(shared_->lowest.load(), address(data)), std::memory_order_relaxed);
  shared_->highest.store(std::max(shared_->highest.load(), address(data) + bytes), std::memory_order_relaxed);
  return block;
}

std::shared_ptr<const MappedBlock> MappedBlocks::find(const void* at) const {
  std::shared_ptr<MappedBlock> block;  // let go of after the lock, which its end takes
  {
    std::lock_guard lock(shared_->mutex);
    const auto after = shared_->blocks.upper_bound(address(at));
    if (after != shared_->blocks.begin()) block = std::prev(after)->second.lock();
  }
  if (block && address(at) >= address(block->data_) + block->bytes_) block.reset();
  return block;
}

}  // namespace fabring

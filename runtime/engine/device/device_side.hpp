#pragma once
// DeviceSide: what an engine has for buffers in memory of devices: staging memory of the host, copies under way,
// scratch on the devices, and what it knows of each rank: can memory of a device be lent to it, opened here, and does
// it send the bytes instead? What could not be done is said once, and why.
//
// Owned by the EngineCore. The driver's but for share() and make_kernels_ready(), which are the caller's.

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fabring/status.hpp"
#include "runtime/engine/call/call.hpp"
#include "runtime/engine/device/device_copies.hpp"
#include "runtime/engine/device/handed_pieces.hpp"
#include "runtime/engine/engine_parts.hpp"
#include "runtime/memory/device_scratch.hpp"
#include "runtime/memory/pinned_source.hpp"
#include "runtime/memory/scratch.hpp"
#include "runtime/transfer/transfer.hpp"

namespace fabring {

class DeviceSide {
 public:
  /// `parts` stay, and their device is null where all memory is the host's.
  explicit DeviceSide(const EngineParts& parts);
  /// Asks which ranks take tickets. Once, before anything else.
  void meet(const Transfer& transfer);

  Scratch& staging() { return staging_; }
  const Scratch& staging() const { return staging_; }
  /// Only where there is a device, as the two that follow.
  DeviceCopies& copies() { return *copies_; }
  DeviceScratch& scratch() { return *scratch_; }
  /// See DeviceScratch::borrow(). That a device has none left is said once, and that it has none to share.
  DeviceScratch::Block borrow_scratch(int device, std::size_t bytes, bool beyond_budget,
                                      DeviceScratch::Readers readers);
  HandedPieces& handed_pieces() { return *handed_pieces_; }
  /// A rank is lost: what was opened of its GPU memory is let go.
  void lost(Rank world_rank) {
    if (handed_pieces_) handed_pieces_->ended(world_rank);
  }
  /// An operation on GPU memory has failed, and what its stream was given before may never be reached: what is freed is
  /// kept.
  void keep_freed(const Call& failed);
  /// No failed operation is under way any more: once their streams have been reached, memory is freed again.
  void free_again_if_reached();
  /// Is a copy under way?
  bool is_copying() const { return copies_ && !copies_->idle(); }

  /// Do kernels reach this block of staging?
  bool is_pinned(std::byte* block) const { return pinned_->gave(block); }
  /// Staging that kernels may read, or null.
  std::byte* borrow_pinned(std::size_t bytes, bool beyond_budget = false);
  /// Likewise of what Scratch::promise() promised; the promise is still open if it is null.
  std::byte* keep_pinned_promise(std::size_t bytes);
  /// An operation whose data would stay on the device is staged, as there is not so much pinned memory beside it.
  void cannot_mirror(std::size_t bytes);

  /// Can this rank's GPU memory be lent to that one, or theirs to us, as far as the way between them goes?
  bool shares_memory_with(Rank world_rank) const { return takes_tickets_[static_cast<std::size_t>(world_rank)]; }
  /// Has it been possible so far?
  bool opens_memory_of(Rank world_rank) const {
    return shares_memory_with(world_rank) && !unopened_[static_cast<std::size_t>(world_rank)];
  }
  /// What it lent, `who` for people, cannot be opened here: from now on it sends the bytes.
  void cannot_open(Rank world_rank, const std::string& who, const Status& why);
  /// Did the last message of this rank that might have been a ticket come in full?
  bool sends_in_full(Rank world_rank) const { return sends_in_full_[static_cast<std::size_t>(world_rank)]; }
  void sends_in_full(Rank world_rank, bool it_does) { sends_in_full_[static_cast<std::size_t>(world_rank)] = it_does; }

  /// Did anything lately pass through the host of an operation whose data stay on the device? Then others may, too.
  bool needs_mirrors() const { return needs_mirrors_; }
  void needs_mirrors(bool it_does) { needs_mirrors_ = it_does; }

  /// See Endpoint::admit_device_memory. Each new reason against it is said once.
  Result<std::shared_ptr<const void>> admit(std::span<const Rank> peers, std::span<const std::byte> memory);

  /// Prepares the call's buffers to be lent to ranks of this host (Call::device.shared), or, of a rank that is alone in
  /// the call's communicator, to be worked on where they are. Why not, if not.
  std::optional<std::string> share(Call& call, bool alone) const;
  /// May wait for what the program has the device do. Without kernels small data are copied as any.
  void make_kernels_ready(const Call& call) const;

 private:
  const EngineParts& parts_;
  std::shared_ptr<PinnedSource> pinned_;  ///< null without devices
  Scratch staging_;                       ///< of it
  std::unique_ptr<DeviceCopies> copies_;
  std::unique_ptr<DeviceScratch> scratch_;
  std::unique_ptr<HandedPieces> handed_pieces_;
  std::vector<bool> takes_tickets_;                      ///< by world rank; never changes
  std::vector<bool> unopened_;                           ///< by world rank: its GPU memory cannot be opened here
  std::vector<bool> sends_in_full_;                      ///< by world rank
  std::vector<std::shared_ptr<DeviceEvent>> unreached_;  ///< of streams that failed operations waited for
  bool keeps_freed_ = false;
  std::vector<std::string> reasons_to_stage_;  ///< those that were said
  bool said_no_mirror_ = false;
  bool said_full_ = false;
  bool said_not_shared_ = false;
  bool needs_mirrors_ = false;
};

}  // namespace fabring

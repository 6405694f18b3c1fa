#include "runtime/engine/device/device_side.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/base/settings.hpp"
#include "runtime/engine/device/device_sharing.hpp"

namespace fabring {

DeviceSide::DeviceSide(const EngineParts& parts)
    : parts_(parts),
      pinned_(parts.device ? std::make_shared<PinnedSource>(parts.device) : nullptr),
      staging_(staging_budget(parts.config), pinned_),
      copies_(parts.device ? std::make_unique<DeviceCopies>(parts.device) : nullptr),
      scratch_(parts.device ? std::make_unique<DeviceScratch>(parts.device, staging_.budget(), parts.clock) : nullptr),
      handed_pieces_(parts.device && parts.endpoint ? std::make_unique<HandedPieces>(*parts.endpoint, parts.device)
                                                    : nullptr),
      takes_tickets_(static_cast<std::size_t>(parts.world_size), false),
      unopened_(takes_tickets_),
      sends_in_full_(takes_tickets_) {}

void DeviceSide::meet(const Transfer& transfer) {
  if (!parts_.device) return;
  for (Rank rank = 0; rank < parts_.world_size; ++rank)
    takes_tickets_[static_cast<std::size_t>(rank)] = rank != parts_.self && transfer.takes_tickets(rank);
}

// Pinned memory may have been short for a moment only, and what is kept of other memory would be lent for ever.
std::byte* DeviceSide::borrow_pinned(std::size_t bytes, bool beyond_budget) {
  for (int tries = 0; tries < 2; ++tries) {
    std::byte* const block = staging_.borrow(bytes, beyond_budget);
    if (block == nullptr || pinned_->gave(block)) return block;
    staging_.drop(block, bytes);
  }
  return nullptr;
}

std::byte* DeviceSide::keep_pinned_promise(std::size_t bytes) {
  for (int tries = 0; tries < 2; ++tries) {
    std::byte* const block = staging_.keep_promise(bytes);
    if (block == nullptr || pinned_->gave(block)) return block;
    staging_.drop(block, bytes);
    (void)staging_.promise(bytes, true);  // as before, which may have been beyond the budget
  }
  return nullptr;
}

DeviceScratch::Block DeviceSide::borrow_scratch(int device, std::size_t bytes, bool beyond_budget,
                                                DeviceScratch::Readers readers) {
  DeviceScratch::Block block = scratch_->borrow(device, bytes, beyond_budget, readers);
  if (block.at != nullptr) return block;
  if (!scratch_->why_not_shared().ok() && !std::exchange(said_not_shared_, true))
    parts_.log.warning(
        fmt::format("GPU {} gives memory that other ranks cannot read to what operations compute on the way, so their "
                    "data are staged through the host: {}",
                    device, scratch_->why_not_shared().message()));
  if (!scratch_->why_none_left().ok() && !std::exchange(said_full_, true))
    parts_.log.warning(
        fmt::format("GPU {} has no {} bytes left for what operations compute on the way, so they do less at once, or "
                    "their data are staged through the host: {}. Leave it some memory (PyTorch: "
                    "torch.cuda.set_per_process_memory_fraction)",
                    device, bytes, scratch_->why_none_left().message()));
  return block;
}

void DeviceSide::keep_freed(const Call& failed) {
  keeps_freed_ = true;
  if (failed.device.ready) unreached_.push_back(failed.device.ready);
  parts_.device->keep_what_is_freed();
}

// A device that answers with an error is broken: nothing is freed there for good.
void DeviceSide::free_again_if_reached() {
  if (!keeps_freed_) return;
  std::erase_if(unreached_, [](const auto& event) {
    const auto reached = event->reached();
    return reached && *reached;
  });
  if (!unreached_.empty()) return;
  keeps_freed_ = false;
  parts_.device->free_again();
}

void DeviceSide::cannot_mirror(std::size_t bytes) {
  if (std::exchange(said_no_mirror_, true)) return;
  parts_.log.warning(
      fmt::format("GPU memory is staged through the host, because a tile needs {} bytes of pinned memory beside "
                  "it, and FABRING_STAGING_BYTES allows {} in all; raise it or lower FABRING_SEGMENT_BYTES",
                  bytes, staging_.budget()));
}

void DeviceSide::cannot_open(Rank world_rank, const std::string& who, const Status& why) {
  if (unopened_[static_cast<std::size_t>(world_rank)]) return;
  unopened_[static_cast<std::size_t>(world_rank)] = true;
  parts_.log.warning(fmt::format("GPU memory of {} is staged through the host, because it cannot be opened here: {}",
                                 who, why.message()));
}

Result<std::shared_ptr<const void>> DeviceSide::admit(std::span<const Rank> peers, std::span<const std::byte> memory) {
  constexpr std::size_t most_reasons = 16;
  if (!parts_.endpoint) return Status(ErrorCode::unsupported, "there is no network");
  auto admitted = parts_.endpoint->admit_device_memory(peers, memory);
  if (admitted) return admitted;
  const std::string& why = admitted.error().message();
  if (reasons_to_stage_.size() < most_reasons &&
      std::find(reasons_to_stage_.begin(), reasons_to_stage_.end(), why) == reasons_to_stage_.end()) {
    reasons_to_stage_.push_back(why);
    const bool asked = parts_.config.explain && parts_.self == 0 && !parts_.log.wants(LogLevel::info);
    (asked ? parts_.log.at(LogLevel::info) : parts_.log).info("GPU memory goes through memory of the host: " + why);
  }
  return admitted;
}

std::optional<std::string> DeviceSide::share(Call& call, bool alone) const {
  call.device.shared.reset();
  if (!call.device.any()) return "its buffers are the host's";
  if (parts_.config.gpu_path == "staged") return "FABRING_GPU_PATH says so";
  if (call.device.tensors) return "it is a list of tensors, which are packed by the processor";
  if (call.wire_type) return "its elements travel as another type, which the processor makes of them";
  alone = alone && !is_message(call.collective);
  if (!alone && std::find(takes_tickets_.begin(), takes_tickets_.end(), true) == takes_tickets_.end())
    return "no other rank of this host is reached by shared memory";
  if (!alone && !is_message(call.collective) && call.bytes() <= *parts_.eager_bytes)
    return "two copies cost less than a kernel for data as small as this";
  auto shared = share_buffers(call, *parts_.device, alone);
  if (!shared) return shared.error().message();
  call.device.shared = std::move(*shared);
  return std::nullopt;
}

void DeviceSide::make_kernels_ready(const Call& call) const {
  if (!call.device.any() || call.bytes() > most_bytes_by_kernel) return;
  for (const int device : {call.device.in, call.device.out})
    if (device >= 0) (void)parts_.device->load_kernels(device);
}

}  // namespace fabring

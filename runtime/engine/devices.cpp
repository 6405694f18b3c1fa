// The device side of EngineCore: copies that end, and what happens when a device fails.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/base/check.hpp"
#include "runtime/engine/device_sharing.hpp"
#include "runtime/engine/engine_core.hpp"

namespace fabring {

bool EngineCore::copy() {
  const std::size_t over = copies_->poll([this](std::uint64_t context, const Status& status) {
    const auto index = static_cast<std::uint16_t>(context >> 48);
    FABRING_CHECK(index < running_.size() && running_[index]);
    Execution& execution = *running_[index];  // it stays; its place in running_ moves when others are begun
    execution.on_copied(static_cast<std::uint32_t>(context >> 32) & 0xffff, static_cast<StepId>(context), status);
  });
  return over > 0;
}

// Does anything that this engine runs wait for a device or for a stream?
bool EngineCore::watches_device() const {
  if (!copies_) return false;
  if (!copies_->idle()) return true;
  for (const auto& execution : running_)
    if (execution && !execution->failed() && execution->waits_for_stream()) return true;
  return false;
}

// ---- memory of devices that ranks of this host read ---------------------------------------------------------------

std::byte* EngineCore::borrow_pinned(std::size_t bytes) {
  std::byte* const block = staging_.borrow(bytes);
  if (block == nullptr || pinned_->gave(block)) return block;
  staging_.give_back(block, bytes);
  return nullptr;
}

std::byte* EngineCore::keep_pinned_promise(std::size_t bytes) {
  std::byte* const block = staging_.keep_promise(bytes);
  if (block == nullptr || pinned_->gave(block)) return block;
  staging_.give_back(block, bytes);
  (void)staging_.promise(bytes);
  return nullptr;
}

void EngineCore::cannot_open(Rank world_rank, const Status& why) {
  if (unopened_[static_cast<std::size_t>(world_rank)]) return;
  unopened_[static_cast<std::size_t>(world_rank)] = true;
  parts_.log.warning(fmt::format("GPU memory of {} is staged through the host, because it cannot be opened here: {}",
                                 who(world_rank), why.message()));
}

void EngineCore::cannot_mirror(std::size_t bytes) {
  if (said_no_mirror_) return;
  said_no_mirror_ = true;
  parts_.log.warning(
      fmt::format("GPU memory is staged through the host, because a tile needs {} bytes of pinned memory beside "
                  "it, and FABRING_STAGING_BYTES allows {} in all; raise it or lower FABRING_SEGMENT_BYTES",
                  bytes, staging_.budget()));
}

// In the caller's thread. Why not, if not.
std::optional<std::string> EngineCore::share_device_memory(Call& call) {
  call.device.shared.reset();
  if (!call.device.any()) return "its buffers are the host's";
  if (parts_.config.gpu_path == "staged") return "FABRING_GPU_PATH says so";
  if (std::find(takes_tickets_.begin(), takes_tickets_.end(), true) == takes_tickets_.end())
    return "no other rank of this host is reached by shared memory";
  if (!is_message(call.collective) && call.bytes() <= parts_.eager_bytes)
    return "two copies cost less than a kernel for data as small as this";
  auto shared = share_buffers(call, *parts_.device);
  if (!shared) return shared.error().message();
  call.device.shared = std::move(*shared);
  return std::nullopt;
}

// In the caller's thread, as it may wait for what the program has the device do. Without kernels small data are copied
// as any.
void EngineCore::make_kernels_ready(const Call& call) {
  if (!call.device.any() || call.bytes() > most_bytes_by_kernel) return;
  for (const int device : {call.device.in, call.device.out})
    if (device >= 0) (void)parts_.device->load_kernels(device);
}

DevicePath EngineCore::device_path(CommunicatorCore& communicator, Call call) {
  const auto without_sharing = [&](std::string why) -> DevicePath {
    const bool direct = parts_.config.gpu_path != "staged" && !reduces(call.collective) && parts_.endpoint &&
                        parts_.endpoint->reaches_devices();
    return direct ? DevicePath{DeviceRoute::direct, parts_.endpoint->device_path()}
                  : DevicePath{DeviceRoute::staged, std::move(why)};
  };
  if (auto why = share_device_memory(call)) return without_sharing(std::move(*why));
  std::vector<Rank> near, far;
  for (const Rank member : communicator.members)
    if (member != parts_.self) (shares_device_memory_with(member) ? near : far).push_back(member);
  std::lock_guard lock(communicator.mutex);
  const auto plan = communicator.plans.find_or_make(call, communicator.self, communicator.node_of);
  if (!plan) return {DeviceRoute::staged, plan.error().message()};
  const auto is_near = [&](Rank member) {
    return std::find(near.begin(), near.end(), communicator.members[static_cast<std::size_t>(member)]) != near.end();
  };
  if (auto why = why_staged(**plan, call, tiling_of(communicator, **plan, call), parts_.eager_bytes, is_near))
    return without_sharing(std::move(*why));
  const char* const others = far.empty()                          ? ""
                             : parts_.endpoint->reaches_devices() ? ", by network cards to the others"
                                                                  : ", staged to the others";
  return {DeviceRoute::shared,
          fmt::format("with {} rank{} of this host{}", near.size(), near.size() == 1 ? "" : "s", others)};
}

// ---- memory of devices that network cards read and write ----------------------------------------------------------

Result<std::shared_ptr<const void>> EngineCore::admit_device_memory(std::span<const Rank> peers,
                                                                    std::span<const std::byte> memory) {
  constexpr std::size_t most_reasons = 16;
  if (!parts_.endpoint) return Status(ErrorCode::unsupported, "there is no network");
  auto admitted = parts_.endpoint->admit_device_memory(peers, memory);
  if (admitted) return admitted;
  const std::string& why = admitted.error().message();
  if (reasons_to_stage_.size() < most_reasons &&
      std::find(reasons_to_stage_.begin(), reasons_to_stage_.end(), why) == reasons_to_stage_.end()) {
    reasons_to_stage_.push_back(why);
    const bool asked = parts_.config.explain && parts_.self == 0 && !parts_.log.wants(LogLevel::info);
    (asked ? Log(LogLevel::info, parts_.self) : parts_.log).info("GPU memory goes through memory of the host: " + why);
  }
  return admitted;
}

void EngineCore::device_failed(const Execution& execution, const Status& why) {
  report({why.code(), parts_.self, parts_.self, execution.communicator()->global_id(),
          fmt::format("{} in {}: {}", who(parts_.self), execution.call().describe(), why.message())});
}

void EngineCore::call_failed(const CommunicatorCore& communicator, const Status& why) {
  report({why.code(), parts_.self, parts_.self, communicator.global_id(),
          fmt::format("{}: {}", who(parts_.self), why.message())});
}

}  // namespace fabring

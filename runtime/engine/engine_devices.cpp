// Where EngineCore and its DeviceSide meet: copies that end, the way a call takes, and what happens when a device
// fails.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/base/check.hpp"
#include "runtime/engine/device/device_sharing.hpp"
#include "runtime/engine/engine_core.hpp"

namespace fabring {

bool EngineCore::copy() {
  const std::size_t over = devices_.copies().poll([this](std::uint64_t context, const Status& status) {
    const auto index = static_cast<std::uint16_t>(context >> 48);
    FABRING_CHECK(index < running_.size() && running_[index]);
    Execution& execution = *running_[index];  // it stays; its place in running_ moves when others are begun
    execution.on_copied(static_cast<std::uint32_t>(context >> 32) & 0xffff, static_cast<StepId>(context), status);
  });
  return over > 0;
}

// Does anything that this engine runs wait for a device or for a stream?
bool EngineCore::watches_device() const {
  if (!parts_.device) return false;
  if (devices_.is_copying()) return true;
  for (const auto& execution : running_)
    if (execution && !execution->failed() && execution->waits_for_stream()) return true;
  return false;
}

DevicePath EngineCore::device_path(CommunicatorCore& communicator, Call call) {
  const auto without_sharing = [&](std::string why) -> DevicePath {
    const bool direct = parts_.config.gpu_path != "staged" && !reduces(call.collective) && parts_.endpoint &&
                        parts_.endpoint->reaches_devices();
    return direct ? DevicePath{DeviceRoute::direct, parts_.endpoint->device_path()}
                  : DevicePath{DeviceRoute::staged, std::move(why)};
  };
  const bool alone = communicator.members.size() == 1;
  if (auto why = devices_.share(call, alone)) return without_sharing(std::move(*why));
  std::vector<Rank> near, far;
  for (const Rank member : communicator.members)
    if (member != parts_.self) (devices_.shares_memory_with(member) ? near : far).push_back(member);
  std::lock_guard lock(communicator.mutex);
  const auto plan = communicator.plans.find_or_make(call, communicator.self, communicator.node_of);
  if (!plan) return {DeviceRoute::staged, plan.error().message()};
  const auto is_near = [&](Rank member) {
    return std::find(near.begin(), near.end(), communicator.members[static_cast<std::size_t>(member)]) != near.end();
  };
  if (auto why = why_staged(**plan, call, tiling_of(communicator, **plan, call), eager_limit(), is_near))
    return without_sharing(std::move(*why));
  if (alone) return {DeviceRoute::alone, "no other rank takes part"};
  const char* const others = far.empty()                          ? ""
                             : parts_.endpoint->reaches_devices() ? ", by network cards to the others"
                                                                  : ", staged to the others";
  return {DeviceRoute::shared,
          fmt::format("with {} rank{} of this host{}", near.size(), near.size() == 1 ? "" : "s", others)};
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

// The device side of EngineCore: copies that end, and what happens when a device fails.

#include <fmt/format.h>

#include "runtime/engine/engine_core.hpp"

namespace fabring {

bool EngineCore::copy() {
  const std::size_t over = copies_->poll([this](std::uint64_t context, const Status& status) {
    const auto& execution = running_[context >> 48];
    execution->on_copied((context >> 32) & 0xffff, static_cast<StepId>(context), status);
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

void EngineCore::device_failed(const Execution& execution, const Status& why) {
  report({why.code(), parts_.self, parts_.self, execution.communicator()->global_id(),
          fmt::format("{} in {}: {}", who(parts_.self), execution.call().describe(), why.message())});
}

void EngineCore::call_failed(const CommunicatorCore& communicator, const Status& why) {
  report({why.code(), parts_.self, parts_.self, communicator.global_id(),
          fmt::format("{}: {}", who(parts_.self), why.message())});
}

}  // namespace fabring

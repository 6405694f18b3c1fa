// Calls that a rank refused for their arguments. Nothing of such a call has been sent and it has no number yet, so its
// caller may correct and repeat it, and most do at once. Whoever does not leaves the others waiting in that call: after
// a while they are told, and one that has waited for a while itself ends it on every rank.

#include <fmt/format.h>

#include <algorithm>

#include "runtime/engine/engine_core.hpp"

namespace fabring {
namespace {

// For the caller to repeat it, and for who waits to be waited for.
constexpr auto time_to_repeat = std::chrono::milliseconds(1000);
constexpr std::size_t most_refusals = 4096;  // kept; a rank has one on a communicator at most

}  // namespace

void EngineCore::call_refused(const std::shared_ptr<CommunicatorCore>& communicator, const Status& why) {
  if (!parts_.control || communicator->size() == 1) return;
  std::uint32_t sequence = 0;
  {
    std::lock_guard lock(communicator->mutex);
    sequence = communicator->last_sequence.load() + 1;
    CommunicatorCore::Refused& refused = communicator->refused;
    if (!communicator->failed.ok() || (refused.stands && refused.sequence == sequence)) return;
    refused = {sequence, true, false, why.message()};
    communicator->not_at_once.store(true);
  }
  ControlPlane& control = *parts_.control;
  control.after(time_to_repeat, [this, &control, sequence, weak = std::weak_ptr<CommunicatorCore>(communicator)] {
    const auto still = weak.lock();
    if (still && !left_.load()) tell_refused(control, *still, sequence);
  });
}

void EngineCore::tell_refused(ControlPlane& control, CommunicatorCore& communicator, std::uint32_t sequence) {
  std::lock_guard lock(communicator.mutex);
  CommunicatorCore::Refused& refused = communicator.refused;
  if (!refused.stands || refused.told || refused.sequence != sequence || !communicator.failed.ok()) return;
  if (communicator.last_sequence.load() >= sequence) return;  // another thread was calling at that moment
  refused.told = true;
  control.tell({parts_.self, communicator.global_id(), sequence, refused.text});
}

void EngineCore::tell_all_refused() {
  for (const auto& communicator : communicators()) {
    std::uint32_t sequence = 0;
    {
      std::lock_guard lock(communicator->mutex);
      sequence = communicator->refused.sequence;
    }
    tell_refused(*parts_.control, *communicator, sequence);
  }
}

void EngineCore::take_back_refused(CommunicatorCore& communicator) {
  CommunicatorCore::Refused& refused = communicator.refused;
  if (!refused.stands) return;
  refused.stands = false;
  communicator.not_at_once.store(false);
  if (refused.told) parts_.control->tell({parts_.self, communicator.global_id(), refused.sequence, ""});
}

void EngineCore::heard_refusal(const RefusedCall& refusal) {
  std::lock_guard lock(mutex_);
  std::erase_if(refusals_, [&](const RefusedCall& known) {
    return known.rank == refusal.rank && known.communicator == refusal.communicator;
  });
  if (refusals_.size() >= most_refusals)  // those of communicators that are gone
    std::erase_if(refusals_, [&](const RefusedCall& known) {
      const auto at = by_id_.find(static_cast<std::uint32_t>(known.communicator >> 32));
      return at != by_id_.end() && at->second.expired();
    });
  if (!refusal.text.empty() && refusals_.size() < most_refusals) refusals_.push_back(refusal);
  knows_refusals_.store(!refusals_.empty());
}

void EngineCore::check_refused(CommunicatorCore& communicator, const Execution& execution, Time now) {
  if (!knows_refusals_.load(std::memory_order_relaxed) || execution.point_to_point() ||
      stuck_for(execution, now) < Time(time_to_repeat))
    return;
  std::uint32_t own = 0;  // who refused it too cannot tell a rank that is slow to repeat it from one that never will
  {
    std::lock_guard lock(communicator.mutex);
    own = communicator.refused.sequence;
  }
  RefusedCall found;
  {
    std::lock_guard lock(mutex_);
    const auto at = std::find_if(refusals_.begin(), refusals_.end(), [&](const RefusedCall& known) {
      return known.communicator == communicator.global_id() && known.sequence <= execution.sequence() &&
             known.sequence != own && communicator.rank_of_world(known.rank) >= 0;
    });
    if (at == refusals_.end()) return;
    found = *at;
  }
  report({ErrorCode::mismatch, found.rank, parts_.self, communicator.global_id(),
          fmt::format("{} refused its operation #{} on communicator '{}' and has not repeated it: {}. {} waits in #{}, "
                      "{}",
                      who(found.rank), found.sequence, communicator.label, found.text, who(parts_.self),
                      execution.sequence(), execution.call().describe())});
}

}  // namespace fabring

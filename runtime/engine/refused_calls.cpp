// Calls that a rank refused for their arguments. Nothing of such a call has been sent and it has no number yet, so its
// caller may correct and repeat it, and most do at once. Whoever does not leaves the others waiting in that call: after
// a while they are told, and one that has waited for a while itself ends it on every rank.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/engine/engine_core.hpp"

namespace fabring {
namespace {

// For the caller to repeat it, and for who waits to be waited for.
constexpr auto time_to_repeat = std::chrono::milliseconds(1000);
constexpr std::size_t most_refusals = 4096;  // kept

// Whoever is told of a subgroup that was not made may name another first member than who has made it.
constexpr std::uint32_t whoever_is_first = ~std::uint32_t{0};
std::uint64_t subgroup_id(std::uint32_t id) { return (std::uint64_t{id} << 32) | whoever_is_first; }

bool is_about(const RefusedCall& refusal, const CommunicatorCore& communicator) {
  return refusal.communicator ==
         (refusal.kind == RefusedCall::Kind::subgroup ? subgroup_id(communicator.id) : communicator.global_id());
}

// Could one of them have met what the other should have met?
bool alike(Rank peer, std::int32_t tag, Rank other_peer, std::int32_t other_tag) {
  return (peer < 0 || other_peer < 0 || peer == other_peer) && (tag < 0 || other_tag < 0 || tag == other_tag);
}

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
    tell_refused_messages(*parts_.control, *communicator, ~std::uint32_t{0});
  }
  tell_refused_subgroups(*parts_.control);
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
    return known.rank == refusal.rank && known.communicator == refusal.communicator && known.kind == refusal.kind &&
           known.peer == refusal.peer && known.tag == refusal.tag;
  });
  if (refusals_.size() >= most_refusals)  // those of communicators that are gone
    std::erase_if(refusals_, [&](const RefusedCall& known) {
      const auto at = by_id_.find(static_cast<std::uint32_t>(known.communicator >> 32));
      return at != by_id_.end() && at->second.expired();
    });
  if (!refusal.text.empty() && refusals_.size() < most_refusals) refusals_.push_back(refusal);
  knows_refusals_.store(!refusals_.empty());
}

// ---- sends and receives ---------------------------------------------------------------------------------------------

void EngineCore::message_refused(const std::shared_ptr<CommunicatorCore>& communicator, const Operation& operation,
                                 const Status& why) {
  if (!parts_.control || communicator->size() == 1) return;
  std::uint32_t number = 0;
  {
    std::lock_guard lock(communicator->mutex);
    auto& all = communicator->refused_messages;
    const bool known = std::any_of(all.begin(), all.end(), [&](const CommunicatorCore::RefusedMessage& message) {
      return message.collective == operation.collective &&
             alike(message.peer, message.tag, operation.root, operation.tag);
    });
    if (known || all.size() >= CommunicatorCore::most_refused_messages || !communicator->failed.ok()) return;
    number = ++communicator->refused_messages_ever;
    const bool is_rank = operation.root >= 0 && operation.root < communicator->size();
    all.push_back({number, operation.collective, is_rank ? operation.root : -1, std::max(operation.tag, -1), false,
                   why.message()});
  }
  ControlPlane& control = *parts_.control;
  control.after(time_to_repeat, [this, &control, number, weak = std::weak_ptr<CommunicatorCore>(communicator)] {
    const auto still = weak.lock();
    if (still && !left_.load()) tell_refused_messages(control, *still, number);
  });
}

RefusedCall EngineCore::refusal_of(const CommunicatorCore& communicator,
                                   const CommunicatorCore::RefusedMessage& message) const {
  RefusedCall refusal{parts_.self, communicator.global_id(), 1, message.text};
  refusal.kind = message.collective == Collective::send ? RefusedCall::Kind::send : RefusedCall::Kind::recv;
  refusal.peer = message.peer < 0 ? -1 : communicator.members[static_cast<std::size_t>(message.peer)];
  refusal.tag = message.tag;
  return refusal;
}

void EngineCore::tell_refused_messages(ControlPlane& control, CommunicatorCore& communicator, std::uint32_t up_to) {
  std::lock_guard lock(communicator.mutex);
  if (!communicator.failed.ok()) return;
  for (auto& message : communicator.refused_messages)
    if (message.number <= up_to && !std::exchange(message.told, true)) control.tell(refusal_of(communicator, message));
}

void EngineCore::take_back_refused(CommunicatorCore& communicator, const Call& made) {
  std::erase_if(communicator.refused_messages, [&](const CommunicatorCore::RefusedMessage& message) {
    if (message.collective != made.collective || !alike(message.peer, message.tag, made.root, made.tag)) return false;
    RefusedCall refusal = refusal_of(communicator, message);
    refusal.text.clear();
    if (message.told) parts_.control->tell(std::move(refusal));
    return true;
  });
}

// ---- subgroups ------------------------------------------------------------------------------------------------------

void EngineCore::subgroup_refused(std::uint32_t id, const Status& why) {
  if (!parts_.control) return;
  {
    std::lock_guard lock(mutex_);
    if (refused_subgroups_.size() >= most_refusals || !refused_subgroups_.try_emplace(id, false, why.message()).second)
      return;
  }
  ControlPlane& control = *parts_.control;
  control.after(time_to_repeat, [this, &control, id] {
    if (!left_.load()) tell_refused_subgroups(control, id);
  });
}

void EngineCore::tell_refused_subgroups(ControlPlane& control, std::optional<std::uint32_t> only) {
  std::lock_guard lock(mutex_);
  for (auto& [id, refused] : refused_subgroups_)
    if ((!only || *only == id) && !std::exchange(refused.told, true))
      control.tell({parts_.self, subgroup_id(id), 1, refused.text, RefusedCall::Kind::subgroup});
}

void EngineCore::take_back_refused_subgroup(std::uint32_t id) {
  std::lock_guard lock(mutex_);
  const auto found = refused_subgroups_.find(id);
  if (found == refused_subgroups_.end()) return;
  if (found->second.told) parts_.control->tell({parts_.self, subgroup_id(id), 1, "", RefusedCall::Kind::subgroup});
  refused_subgroups_.erase(found);
}

// ---- those who wait -------------------------------------------------------------------------------------------------

// `own`: the number of the call that this rank refused last.
bool EngineCore::is_concerned(const RefusedCall& refusal, const CommunicatorCore& communicator,
                              const Execution& execution, std::uint32_t own) const {
  const Rank by = communicator.rank_of_world(refusal.rank);
  if (!is_about(refusal, communicator) || by < 0) return false;
  const Call& call = execution.call();
  switch (refusal.kind) {
    case RefusedCall::Kind::subgroup:
      return !is_message(call.collective) || call.root == by;
    case RefusedCall::Kind::collective:
      // Who refused it too cannot tell a rank that is slow to repeat it from one that never will.
      return !is_message(call.collective) && refusal.sequence <= execution.sequence() && refusal.sequence != own;
    case RefusedCall::Kind::send:  // a receive from anybody may still be served by somebody else
      return call.collective == Collective::recv && call.root == by &&
             alike(refusal.peer, refusal.tag, parts_.self, call.tag);
    case RefusedCall::Kind::recv:
      return call.collective == Collective::send && call.root == by &&
             alike(refusal.peer, refusal.tag, parts_.self, call.tag);
  }
  return false;
}

std::string EngineCore::what_was_refused(const RefusedCall& refusal, const CommunicatorCore& communicator) const {
  const auto other_side = [&](const char* what, const char* direction) {
    return refusal.peer < 0 ? fmt::format("a {}", what) : fmt::format("a {} {} {}", what, direction, who(refusal.peer));
  };
  switch (refusal.kind) {
    case RefusedCall::Kind::send:
      return other_side("send", "to") + fmt::format(" on communicator '{}'", communicator.label);
    case RefusedCall::Kind::recv:
      return other_side("recv", "from") + fmt::format(" on communicator '{}'", communicator.label);
    case RefusedCall::Kind::subgroup:
      return fmt::format("to make communicator '{}'", communicator.label);
    case RefusedCall::Kind::collective:
      break;
  }
  return fmt::format("its operation #{} on communicator '{}'", refusal.sequence, communicator.label);
}

std::optional<RefusedCall> EngineCore::refusal_for(CommunicatorCore& communicator, const Execution& execution,
                                                   std::optional<Rank> by) const {
  if (!knows_refusals_.load(std::memory_order_relaxed)) return std::nullopt;
  std::uint32_t own = 0;
  {
    std::lock_guard lock(communicator.mutex);
    own = communicator.refused.sequence;
  }
  std::lock_guard lock(mutex_);
  const auto at = std::find_if(refusals_.begin(), refusals_.end(), [&](const RefusedCall& known) {
    return (!by || known.rank == *by) && is_concerned(known, communicator, execution, own);
  });
  return at == refusals_.end() ? std::nullopt : std::optional(*at);
}

void EngineCore::check_refused(CommunicatorCore& communicator, const Execution& execution, Time now) {
  if (stuck_for(execution, now) < Time(time_to_repeat)) return;
  if (const auto found = refusal_for(communicator, execution)) report_refusal(communicator, execution, *found);
}

void EngineCore::report_refusal(const CommunicatorCore& communicator, const Execution& execution,
                                const RefusedCall& refusal) {
  const std::string number = execution.point_to_point() ? "" : fmt::format("#{}, ", execution.sequence());
  report({ErrorCode::mismatch, refusal.rank, parts_.self, communicator.global_id(),
          fmt::format("{} refused {} and has not repeated it: {}. {} waits in {}{}", who(refusal.rank),
                      what_was_refused(refusal, communicator), refusal.text, who(parts_.self), number,
                      execution.call().describe())});
}

}  // namespace fabring

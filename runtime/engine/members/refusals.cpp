#include "runtime/engine/members/refusals.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/engine/members/communicator_core.hpp"
#include "runtime/engine/members/membership.hpp"

namespace fabring {
namespace {

constexpr std::size_t most_refusals = 4096;  // kept

// Whoever is told of a subgroup that was not made may name another first member than who has made it.
constexpr std::uint32_t whoever_is_first = ~std::uint32_t{0};
std::uint64_t subgroup_id(std::uint32_t id) { return (std::uint64_t{id} << 32) | whoever_is_first; }

bool is_about(const RefusedCall& refusal, const CommunicatorCore& communicator) {
  return refusal.communicator ==
         (refusal.kind == RefusedCall::Kind::subgroup ? subgroup_id(communicator.id) : communicator.global_id());
}

// Who has forgotten which subgroup of that number it has made has made this one if anything of it has come here. That
// others have done something on it says nothing: many operations do not wait for every rank.
bool made_it(const RefusedCall& refusal, const CommunicatorCore& communicator, Rank by) {
  if (refusal.made == members_forgotten) return communicator.member[static_cast<std::size_t>(by)].heard;
  return refusal.made == members_digest(communicator.members);
}

// Could one of them have met what the other should have met?
bool alike(Rank peer, std::int32_t tag, Rank other_peer, std::int32_t other_tag) {
  return (peer < 0 || other_peer < 0 || peer == other_peer) && (tag < 0 || other_tag < 0 || tag == other_tag);
}

RefusedCall collective_to_tell(const CommunicatorCore& communicator) {
  const RefusedHere::Last& last = communicator.refused.last;
  return {communicator.members[static_cast<std::size_t>(communicator.self)], communicator.global_id(), last.sequence,
          last.text};
}

RefusedCall message_to_tell(const CommunicatorCore& communicator, const RefusedHere::Message& message) {
  RefusedCall refusal{communicator.members[static_cast<std::size_t>(communicator.self)], communicator.global_id(), 1,
                      message.text};
  refusal.kind = message.collective == Collective::send ? RefusedCall::Kind::send : RefusedCall::Kind::recv;
  refusal.peer = message.peer < 0 ? -1 : communicator.members[static_cast<std::size_t>(message.peer)];
  refusal.tag = message.tag;
  return refusal;
}

}  // namespace

Refusals::Refusals(Rank self, ControlPlane* control, std::function<std::string(Rank)> who)
    : self_(self),
      control_(control),
      who_(std::move(who)),
      of_dropped_(control != nullptr ? std::make_shared<LastRefusals>(control) : nullptr) {}

// ---- of communicators that are dropped ------------------------------------------------------------------------------

void LastRefusals::tell(RefusedCall refusal) {
  std::lock_guard lock(mutex_);
  if (control_ != nullptr) control_->tell(std::move(refusal));
}

void LastRefusals::close() {
  std::lock_guard lock(mutex_);
  control_ = nullptr;
}

void Refusals::dropped(const CommunicatorCore& communicator, LastRefusals& last) {
  if (!communicator.failed.ok()) return;
  const RefusedHere& refused = communicator.refused;
  if (refused.last.stands && !refused.last.told) last.tell(collective_to_tell(communicator));
  for (const RefusedHere::Message& message : refused.messages)
    if (!message.told) last.tell(message_to_tell(communicator, message));
}

// ---- collectives ----------------------------------------------------------------------------------------------------

void Refusals::refused(const std::shared_ptr<CommunicatorCore>& communicator, const Status& why) {
  if (!control_ || communicator->size() == 1) return;
  std::uint32_t sequence = 0;
  {
    std::lock_guard lock(communicator->mutex);
    sequence = next_sequence(communicator->last_sequence.load());
    RefusedHere::Last& last = communicator->refused.last;
    if (!communicator->failed.ok() || (last.stands && last.sequence == sequence)) return;
    last = {sequence, true, false, why.message()};
    communicator->not_at_once.store(true);
  }
  control_->after(time_to_repeat, [this, sequence, weak = std::weak_ptr<CommunicatorCore>(communicator)] {
    const auto still = weak.lock();
    if (still && !closed_.load()) tell(*still, sequence);
  });
}

void Refusals::tell(CommunicatorCore& communicator, std::uint32_t sequence) {
  std::lock_guard lock(communicator.mutex);
  RefusedHere::Last& last = communicator.refused.last;
  if (!last.stands || last.told || last.sequence != sequence || !communicator.failed.ok()) return;
  if (!is_before(communicator.last_sequence.load(), sequence)) return;  // another thread was calling at that moment
  last.told = true;
  control_->tell(collective_to_tell(communicator));
}

// ---- sends and receives ---------------------------------------------------------------------------------------------

void Refusals::refused(const std::shared_ptr<CommunicatorCore>& communicator, const Operation& operation,
                       const Status& why) {
  if (!control_ || communicator->size() == 1) return;
  std::uint32_t number = 0;
  {
    std::lock_guard lock(communicator->mutex);
    auto& all = communicator->refused.messages;
    const bool known = std::any_of(all.begin(), all.end(), [&](const RefusedHere::Message& message) {
      return message.collective == operation.collective &&
             alike(message.peer, message.tag, operation.root, operation.tag);
    });
    if (known || all.size() >= RefusedHere::most_messages || !communicator->failed.ok()) return;
    number = ++communicator->refused.messages_ever;
    const bool is_rank = operation.root >= 0 && operation.root < communicator->size();
    all.push_back({number, operation.collective, is_rank ? operation.root : -1, std::max(operation.tag, -1), false,
                   why.message()});
  }
  control_->after(time_to_repeat, [this, number, weak = std::weak_ptr<CommunicatorCore>(communicator)] {
    const auto still = weak.lock();
    if (still && !closed_.load()) tell_messages(*still, number);
  });
}

void Refusals::tell_messages(CommunicatorCore& communicator, std::uint32_t up_to) {
  std::lock_guard lock(communicator.mutex);
  if (!communicator.failed.ok()) return;
  for (auto& message : communicator.refused.messages)
    if (message.number <= up_to && !std::exchange(message.told, true))
      control_->tell(message_to_tell(communicator, message));
}

// ---- both -----------------------------------------------------------------------------------------------------------

void Refusals::called(CommunicatorCore& communicator, const Call& call) {
  RefusedHere& refused = communicator.refused;
  if (is_message(call.collective)) {
    std::erase_if(refused.messages, [&](const RefusedHere::Message& message) {
      if (message.collective != call.collective || !alike(message.peer, message.tag, call.root, call.tag)) return false;
      RefusedCall refusal = message_to_tell(communicator, message);
      refusal.text.clear();
      if (message.told) control_->tell(std::move(refusal));
      return true;
    });
  } else if (std::exchange(refused.last.stands, false)) {
    communicator.not_at_once.store(false);
    if (refused.last.told) control_->tell({self_, communicator.global_id(), refused.last.sequence, ""});
  }
}

void Refusals::close(const std::vector<std::shared_ptr<CommunicatorCore>>& communicators) {
  closed_.store(true);
  if (!control_) return;
  for (const auto& communicator : communicators) {
    std::uint32_t sequence = 0;
    {
      std::lock_guard lock(communicator->mutex);
      sequence = communicator->refused.last.sequence;
    }
    tell(*communicator, sequence);
    tell_messages(*communicator, ~std::uint32_t{0});
  }
  tell_subgroups();
  of_dropped_->close();
}

// ---- subgroups ------------------------------------------------------------------------------------------------------

void Refusals::refused_subgroup(std::uint32_t id, const Status& why, std::function<std::uint64_t()> made) {
  if (!control_) return;
  {
    std::lock_guard lock(subgroups_mutex_);
    if (subgroups_.size() >= most_refusals) return;
    if (!subgroups_.try_emplace(id, Subgroup{false, why.message(), std::move(made)}).second) return;
  }
  control_->after(time_to_repeat, [this, id] {
    if (!closed_.load()) tell_subgroups(id);
  });
}

void Refusals::tell_subgroups(std::optional<std::uint32_t> only) {
  std::lock_guard lock(subgroups_mutex_);
  for (auto& [id, refused] : subgroups_)
    if ((!only || *only == id) && !std::exchange(refused.told, true))
      control_->tell({self_, subgroup_id(id), 1, refused.text, RefusedCall::Kind::subgroup, -1, -1, refused.made()});
}

void Refusals::made_subgroup(std::uint32_t id) {
  std::lock_guard lock(subgroups_mutex_);
  const auto found = subgroups_.find(id);
  if (found == subgroups_.end()) return;
  if (found->second.told) control_->tell({self_, subgroup_id(id), 1, "", RefusedCall::Kind::subgroup});
  subgroups_.erase(found);
}

// ---- those of others ------------------------------------------------------------------------------------------------

void Refusals::heard(const RefusedCall& refusal, const std::function<bool(std::uint32_t id)>& is_gone) {
  std::lock_guard lock(heard_mutex_);
  std::erase_if(heard_, [&](const RefusedCall& known) {
    return known.rank == refusal.rank && known.communicator == refusal.communicator && known.kind == refusal.kind &&
           known.peer == refusal.peer && known.tag == refusal.tag;
  });
  if (heard_.size() >= most_refusals)
    std::erase_if(heard_, [&](const RefusedCall& known) {
      return is_gone(static_cast<std::uint32_t>(known.communicator >> 32));
    });
  if (!refusal.text.empty() && heard_.size() < most_refusals) heard_.push_back(refusal);
  heard_any_.store(!heard_.empty());
}

void Refusals::forget(std::uint64_t communicator) {
  std::lock_guard lock(heard_mutex_);
  std::erase_if(heard_, [&](const RefusedCall& refusal) { return refusal.communicator == communicator; });
}

// `own`: the number of the call that this rank refused last.
bool Refusals::concerns(const RefusedCall& refusal, const CommunicatorCore& communicator, const Execution& execution,
                        std::uint32_t own) const {
  const Rank by = communicator.rank_of_world(refusal.rank);
  if (!is_about(refusal, communicator) || by < 0) return false;
  const Call& call = execution.call();
  switch (refusal.kind) {
    case RefusedCall::Kind::subgroup:  // not of this one, if it has made this one: no rank makes two of one number
      return !made_it(refusal, communicator, by) && (!is_message(call.collective) || call.root == by);
    case RefusedCall::Kind::collective:
      // Who refused it too cannot tell a rank that is slow to repeat it from one that never will.
      return !is_message(call.collective) && !is_before(execution.sequence(), refusal.sequence) &&
             refusal.sequence != own;
    case RefusedCall::Kind::send:  // a receive from anybody may still be served by somebody else
      return call.collective == Collective::recv && call.root == by &&
             alike(refusal.peer, refusal.tag, self_, call.tag);
    case RefusedCall::Kind::recv:
      return call.collective == Collective::send && call.root == by &&
             alike(refusal.peer, refusal.tag, self_, call.tag);
  }
  return false;
}

std::string Refusals::text_of(const RefusedCall& refusal, const CommunicatorCore& communicator) const {
  const auto other_side = [&](const char* what, const char* direction) {
    return refusal.peer < 0 ? fmt::format("a {}", what)
                            : fmt::format("a {} {} {}", what, direction, who_(refusal.peer));
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

std::optional<Failure> Refusals::failure_of(CommunicatorCore& communicator, const Execution& execution,
                                            std::optional<Rank> by) const {
  if (!heard_any_.load(std::memory_order_relaxed)) return std::nullopt;
  std::uint32_t own = 0;
  {
    std::lock_guard lock(communicator.mutex);
    own = communicator.refused.last.sequence;
  }
  std::optional<RefusedCall> refusal;
  {
    std::lock_guard lock(heard_mutex_);
    const auto at = std::find_if(heard_.begin(), heard_.end(), [&](const RefusedCall& known) {
      return (!by || known.rank == *by) && concerns(known, communicator, execution, own);
    });
    if (at == heard_.end()) return std::nullopt;
    refusal = *at;
  }
  const std::string number = execution.point_to_point() ? "" : fmt::format("#{}, ", execution.sequence());
  return Failure{
      ErrorCode::mismatch, refusal->rank, self_, communicator.global_id(),
      fmt::format("{} refused {} and has not repeated it: {}. {} waits in {}{}", who_(refusal->rank),
                  text_of(*refusal, communicator), refusal->text, who_(self_), number, execution.call().describe())};
}

}  // namespace fabring

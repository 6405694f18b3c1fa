// What an engine makes of others that have left. Each has told what it has called and sent (Account): so who waits for
// it knows at once that nothing more will come, and calls that differed are known though none had to wait.

#include <fmt/format.h>

#include <algorithm>

#include "runtime/engine/engine_core.hpp"

namespace fabring {
namespace {

// What a rank had sent before it left may take so long to arrive, while nothing else comes on its communicator.
constexpr auto time_to_arrive = std::chrono::seconds(3);
constexpr auto time_in_memory = std::chrono::milliseconds(400);

// A receive that anybody could still answer.
bool from_anybody(const Execution& execution) {
  return execution.call().collective == Collective::recv && execution.call().root == any_source && !execution.started();
}

}  // namespace

void EngineCore::heard_goodbye(Rank rank, const std::string& account) {
  if (auto accounts = Accounts::decode(account)) departures_.heard(rank, std::move(*accounts));
}

// With the drive held, when all have left that were going to. A difference is seen by every rank that has had the
// communicator, as not all can be like it.
Status EngineCore::compare_accounts() {
  const Accounts ours = accounts();
  Status first;
  const auto compare = [&](const Account& own, const std::string& label) {
    if (!own.fine || own.sequence == 0 || ours.of(own.communicator) == nullptr) return Status();
    const auto other = departures_.differing(own);
    return other ? mismatch(label, other->rank, own.sequence, other->theirs, own.last) : Status();
  };
  for (const auto& communicator : communicators()) {
    const Status differs = compare(communicator->account(), communicator->label);
    if (!differs.ok()) fail(*communicator, differs);  // log_untold() says so
  }
  for (const auto& entry : account_book_->entries()) {
    if (!first.ok()) break;
    first = entry.untold;
    if (first.ok() && entry.account.fine) first = heard_mismatch(entry.account.communicator);
    if (first.ok()) first = compare(entry.account, entry.label);
  }
  return first;
}

// What another rank has told of a communicator that was, or was being, given up here by then.
Status EngineCore::heard_mismatch(std::uint64_t communicator) const {
  std::optional<Failure> heard;
  {
    std::lock_guard lock(mutex_);
    for (const Failure& failure : applied_)
      if (!heard && failure.code == ErrorCode::mismatch && failure.communicator == communicator) heard = failure;
  }
  return heard ? explain(*heard) : Status();
}

// That a rank has left while another waits for it is certain from its account; otherwise what it had sent may still be
// on its way.
bool EngineCore::will_not_come(const CommunicatorCore& communicator, const Execution& execution, Rank rank) const {
  if (from_anybody(execution)) {
    for (Rank member = 0; member < communicator.size(); ++member)
      if (member != communicator.self &&
          !departures_.sent_at_most(communicator.members[member], communicator.global_id(), parts_.self,
                                    communicator.messages.arrived_from(member)))
        return false;
    return true;
  }
  const Rank world_rank = communicator.members[rank];
  if (!execution.point_to_point())
    return departures_.called_fewer(world_rank, communicator.global_id(), execution.sequence());
  return execution.call().collective == Collective::recv && !execution.started() &&
         departures_.sent_at_most(world_rank, communicator.global_id(), parts_.self,
                                  communicator.messages.arrived_from(rank));
}

std::string EngineCore::left_while(const CommunicatorCore& communicator, const Execution& execution,
                                   bool certain) const {
  const std::string what = fmt::format("{} on '{}'", execution.call().describe(), communicator.label);
  if (from_anybody(execution))
    return fmt::format(", the last of those who could have sent what {} waits for in {}", who(parts_.self), what);
  if (!certain) return fmt::format(" while {} waits for it in {}", who(parts_.self), what);
  if (execution.point_to_point())
    return fmt::format(" without sending what {} waits for in {}", who(parts_.self), what);
  return fmt::format(" without calling #{}, {}, in which {} waits", execution.sequence(), what, who(parts_.self));
}

// Whose leaving keeps an operation from its end. Several may have left by the time that this rank looks, one because of
// another: the first that did not call it, or else the first of those that are waited for.
std::optional<Rank> EngineCore::first_to_leave(const CommunicatorCore& communicator, const Execution& execution) const {
  if (from_anybody(execution)) return last_to_leave(communicator);
  const auto leave_order = [&](Rank rank) {
    const Rank world = communicator.members[rank];
    return world == parts_.self ? 0 : parts_.control->leave_order(world);
  };
  std::optional<Rank> awaited, absent;
  const auto keep_first = [&](std::optional<Rank>& first, Rank rank) {
    if (leave_order(rank) != 0 && (!first || leave_order(rank) < leave_order(*first))) first = rank;
  };
  for (const Rank rank : execution.waiting_for()) keep_first(awaited, rank);
  if (!awaited || execution.point_to_point()) return awaited;
  for (Rank rank = 0; rank < communicator.size(); ++rank)
    if (will_not_come(communicator, execution, rank)) keep_first(absent, rank);
  return absent ? absent : awaited;
}

// Nothing unless all others have left.
std::optional<Rank> EngineCore::last_to_leave(const CommunicatorCore& communicator) const {
  std::optional<Rank> last;
  std::uint32_t order = 0;
  for (Rank member = 0; member < communicator.size(); ++member) {
    if (member == communicator.self) continue;
    const std::uint32_t left = parts_.control->leave_order(communicator.members[member]);
    if (left == 0) return std::nullopt;
    if (left >= order) last = member;
    order = std::max(order, left);
  }
  return last;
}

void EngineCore::check_left(CommunicatorCore& communicator, Execution& execution) {
  if (!parts_.control || leaving_.takes_nothing()) return;
  const std::optional<Rank> rank = first_to_leave(communicator, execution);
  if (!rank) {
    execution.watchdog().none_has_left();
    return;
  }
  const Rank world = communicator.members[*rank];
  const bool certain = will_not_come(communicator, execution, *rank);
  const std::uint64_t moves = communicator.moves + execution.steps_done();
  const Time quiet = execution.watchdog().quiet_since_one_left(moves, attended_.now());
  const bool same_memory =
      parts_.agreed.shares_memory && !parts_.node_of.empty() &&
      parts_.node_of[static_cast<std::size_t>(world)] == parts_.node_of[static_cast<std::size_t>(parts_.self)];
  if (!certain && quiet < (same_memory ? Time(time_in_memory) : Time(time_to_arrive))) return;
  if (auto refused = refusals_.failure_of(communicator, execution, world)) return report(std::move(*refused));
  report({ErrorCode::peer_lost, world, parts_.self, communicator.global_id(),
          fmt::format("{} has left the job{}: its program has ended, or has closed Fabring; its output and exit status "
                      "may say why. All ranks must call the same operations before one of them leaves{}",
                      parts_.control->name_of(world), left_while(communicator, execution, certain),
                      unread(communicator, execution))});
}

}  // namespace fabring

// What an engine makes of communicators that one rank has dropped while another waits there (members/dropped.hpp).

#include <fmt/format.h>

#include <algorithm>

#include "runtime/engine/engine_core.hpp"
#include "runtime/engine/members/sequence.hpp"

namespace fabring {
namespace {

constexpr std::size_t most_asked = 4;  // at a time, of those it waits for

}  // namespace

// In the control thread.
void EngineCore::heard_of_dropped(Rank from, std::string_view bytes) {
  const auto letter = DroppedLetter::decode(bytes);
  if (!letter) return;
  if (letter->answers) return dropped_elsewhere_.heard(from, *letter);
  if (leaving_.takes_nothing() || !is_gone(letter->id)) return;
  // One that has failed here has failed everywhere, with a better reason.
  const auto account = account_book_->of(letter->id, communicators().size());
  if (!account || !account->fine) return;
  DroppedLetter answer{true, letter->id, account->sequence};
  answer.counted = account->all_sent;
  for (const auto& [to, messages] : account->sent)
    if (to == from) answer.messages = messages;
  parts_.control->send_letter(from, DroppedLetter::mark + answer.encode());
}

void EngineCore::ask_for_dropped(const CommunicatorCore& communicator, Execution& execution, Time now) {
  if (!execution.watchdog().due_for_a_question(parts_.world_size, now)) return;
  std::size_t asked = 0;
  for (const Rank rank : execution.waiting_for()) {
    if (rank == communicator.self) continue;
    if (asked++ == most_asked) break;
    DroppedLetter question;
    question.id = communicator.id;
    parts_.control->send_letter(communicator.members[rank], DroppedLetter::mark + question.encode());
  }
}

// It has not called this, or has received or sent no such message, and never will.
bool EngineCore::is_dropped_before(const CommunicatorCore& communicator, const Execution& execution, Rank rank) const {
  const auto answer = dropped_elsewhere_.of(communicator.members[rank], communicator.id);
  if (!answer) return false;
  if (!execution.point_to_point()) return answer->sequence == 0 || is_before(answer->sequence, execution.sequence());
  if (execution.call().collective == Collective::send) return true;
  return !execution.started() && answer->counted &&
         !is_before(communicator.messages.arrived_from(rank), answer->messages);
}

void EngineCore::check_dropped(CommunicatorCore& communicator, Execution& execution, Time now) {
  if (!parts_.control || leaving_.takes_nothing()) return;
  for (const Rank rank : execution.waiting_for()) {
    if (rank == communicator.self || !is_dropped_before(communicator, execution, rank)) continue;
    const Rank world = communicator.members[rank];
    const std::string number = execution.point_to_point() ? "" : fmt::format("#{}, ", execution.sequence());
    return report({ErrorCode::mismatch, world, parts_.self, communicator.global_id(),
                   fmt::format("{} has dropped communicator '{}' and calls nothing there any more, while {} waits for "
                               "it in {}{}. All ranks must call the same operations on a communicator before one of "
                               "them drops it (in Python also by its last reference)",
                               who(world), communicator.label, who(parts_.self), number, execution.call().describe())});
  }
  ask_for_dropped(communicator, execution, now);
}

}  // namespace fabring

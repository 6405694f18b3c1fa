// What EngineCore does from time to time about operations that take long: it says that they wait and for whom, and
// gives up when their time is over. Their Watchdogs know when.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "runtime/base/rank_list.hpp"
#include "runtime/engine/engine_core.hpp"
#include "runtime/engine/waiting/wait_circle.hpp"

namespace fabring {
namespace {

constexpr std::size_t most_notes = 4;  // of a communicator at a time

// Messages have no number before they have met.
std::string title(const Execution& execution) {
  const Call& call = execution.call();
  return is_message(call.collective) ? call.describe() : fmt::format("{} #{}", call.called(), execution.sequence());
}

// Where it waits for no rank.
std::string waits_for(const Execution& execution, const char* otherwise) {
  if (execution.waits_for_stream()) return "the work that its GPU stream was given before the call";
  if (const int device = execution.busy_device(); device >= 0)
    return fmt::format("GPU {} to run what was posted to it", device);
  const bool from_any = execution.call().collective == Collective::recv && execution.call().root == any_source;
  return from_any ? "a message from any rank" : otherwise;
}

// Nobody is who waits. A program may let all receive first; collectives do not.
const char* who_is_at_fault(WaitCircle circle, const Execution& execution) {
  switch (circle) {
    case WaitCircle::none:
      return "who does not wait itself has not called it, or is stuck";
    case WaitCircle::sends:
      return "they wait for each other: each sends before any of them receives; let one of them receive first, or "
             "begin send and recv together (in a group, or without waiting)";
    case WaitCircle::different_calls:
      return "they wait for each other in different calls: all ranks have to make calls on several communicators, and "
             "messages beside collectives, in one order (fabring doctor hang says who waits in what); if they do, what "
             "one of them sent has not arrived (fabring doctor net)";
    case WaitCircle::one_call:
      break;
  }
  return is_message(execution.call().collective)
             ? "they wait for each other: either each is to be sent something first, or what one of them sent has not "
               "arrived (fabring doctor net; a firewall that forgets idle connections)"
             : "they wait for each other: what one of them sent has not arrived; look at the network between them "
               "(fabring doctor net; a firewall that forgets idle connections)";
}

// A note before that is for the other ranks: a limit so short is no sign that anything is wrong, and the error that it
// ends with says the same.
LogLevel level_of_note(Time waited) { return waited < Time(Watchdog::first_note) ? LogLevel::info : LogLevel::warning; }

}  // namespace

std::string EngineCore::unread(const CommunicatorCore& communicator, const Execution& execution) {
  if (execution.call().collective != Collective::recv) return {};
  const std::string passed = communicator.messages.passed_over(execution.call());
  return passed.empty() ? passed : "; " + passed;
}

std::string EngineCore::not_run(const Execution& execution) {
  const int device = execution.busy_device();
  return device < 0 ? "" : fmt::format("; GPU {} has not run what was posted to it", device);
}

void EngineCore::tick(Time now) {
  if (running_count_ > 0) finished_some_ = true;  // failed ones may have settled
  attended_.look(now);
  report_suspects(now);
  settling_.look(attended_.now());
  if (settling_.is_over()) devices_.free_again_if_reached();
  for (const auto& [peer, slot] : dropped_grants_->take()) transfer_->decline(peer, slot);
  count_traffic();
  tell_state();
  for (const auto& communicator : communicators()) {
    membership_check_.release(*communicator, now);
    auto under_way = communicator->running();
    const auto waiting = communicator->messages.waiting();
    under_way.insert(under_way.end(), waiting.begin(), waiting.end());
    std::size_t notes = 0;
    LogLevel most_serious = LogLevel::info;
    for (const auto& execution : under_way) {
      if (execution->failed()) continue;
      Watchdog& watchdog = execution->watchdog();
      if (watchdog.due_for_a_note(execution->steps_done(), time_for_any_, now)) {
        most_serious = std::min(most_serious, level_of_note(watchdog.stuck_for(now)));
        if (++notes <= most_notes) note_waiting(*communicator, *execution, now);
      }
      if (execution->unannounced() && watchdog.is_unheard(now)) execution->announce_waiting();
      check_refused(*communicator, *execution, now);
      if (watchdog.due_for_a_look(now)) {
        say_what_waits(*execution, now);
        try_the_unheard(*communicator, *execution, now);
        check_left(*communicator, *execution);
        check_dropped(*communicator, *execution, now);
      }
      check_deadline(*communicator, *execution, now);
    }
    check_queued(*communicator, now);
    if (notes > most_notes)
      parts_.log.write(most_serious,
                       fmt::format("{} more operations on '{}' wait as well", notes - most_notes, communicator->label));
  }
}

std::string EngineCore::activity_of(Rank rank) const {
  return parts_.control ? parts_.control->activity_of(rank) : std::string();
}

bool EngineCore::is_silent(Rank rank) const {
  return parts_.control && parts_.control->silent_for(rank) > std::chrono::milliseconds(0);
}

std::string EngineCore::who_and_what(Rank rank, const std::string& missing) const {
  const std::string whom = missing.empty() ? who(rank) : fmt::format("{} ({})", who(rank), missing);
  if (is_silent(rank))
    return fmt::format("{} [silent for {} s: stopped, or cut off]", whom,
                       std::chrono::duration_cast<std::chrono::seconds>(parts_.control->silent_for(rank)).count());
  const std::string activity = activity_of(rank);
  return activity.empty() ? whom : fmt::format("{} [{}]", whom, activity);
}

// Only whoever drives may ask the endpoint.
std::string EngineCore::who_and_what_stands_between(Rank rank) const {
  const bool other = parts_.endpoint && rank != parts_.self;
  return who_and_what(rank, other ? parts_.endpoint->unconnected(rank) : std::string());
}

void EngineCore::check_refused(CommunicatorCore& communicator, const Execution& execution, Time now) {
  if (execution.watchdog().stuck_for(now) < Time(Refusals::time_to_repeat)) return;
  if (auto refused = refusals_.failure_of(communicator, execution)) report(std::move(*refused));
}

// Who waits for something small has perhaps said nothing yet of what it called, and if the others wait for it likewise,
// or are done, nobody would ever know that they called something else.
void EngineCore::say_what_waits(Execution& execution, Time now) {
  if (execution.watchdog().is_silent(now)) execution.announce_waiting();
}

// Nobody tells of a rank's death where the way to it on the control plane is cut, and an endpoint that only receives
// may never notice (libfabric's TCP): it does if it sends. What is sent says nothing new.
void EngineCore::try_the_unheard(CommunicatorCore& communicator, const Execution& execution, Time now) {
  if (!parts_.control || !execution.watchdog().is_silent(now)) return;
  for (const Rank rank : execution.waiting_for()) {
    const Rank world = communicator.members[rank];
    if (rank == communicator.self || parts_.control->hears_of(world)) continue;
    communicator.tell_what_was_taken(rank, *transfer_);
  }
}

void EngineCore::note_waiting(CommunicatorCore& communicator, const Execution& execution, Time now) {
  const Time waited = execution.watchdog().stuck_for(now);
  // What the others do belongs into the log, not into what this rank tells them: notes would quote notes.
  std::vector<std::string> names, names_and_activities;
  for (Rank rank : execution.held_up_by()) {
    const Rank world = communicator.members[rank];
    names.push_back(who(world));
    names_and_activities.push_back(who_and_what_stands_between(world));
  }
  const auto joined = [&](const std::vector<std::string>& whom) {
    return whom.empty() ? waits_for(execution, "its own work")
                        : fmt::format("{}{}", fmt::join(whom, ", "), not_run(execution));
  };
  const auto seconds = std::chrono::floor<std::chrono::seconds>(waited);
  parts_.log.write(level_of_note(waited),
                   fmt::format("{} on '{}' has waited {} for {}{}", title(execution), communicator.label,
                               duration_text(seconds.count() > 0 ? Time(seconds) : waited),
                               joined(names_and_activities), unread(communicator, execution)));
  if (parts_.control)
    parts_.control->set_activity(wait_note(title(execution), communicator.label, seconds, joined(names)));
}

void EngineCore::check_deadline(CommunicatorCore& communicator, const Execution& execution, Time now) {
  if (execution.watchdog().is_overdue(time_for_any_, now)) give_up(communicator, execution, execution, "", now);
}

// Those behind others of their communicator. FABRING_TIMEOUT counts for the others.
void EngineCore::check_queued(CommunicatorCore& communicator, Time now) {
  for (const auto& execution : communicator.queued) {
    const Watchdog& watchdog = execution->watchdog();
    if (execution->failed() || !watchdog.has_own_limit() || !watchdog.is_overdue(time_for_any_, now)) continue;
    if (communicator.active.empty())
      return give_up(communicator, *execution, *execution,
                     ", which has not begun: other communicators use all of FABRING_SCRATCH_BYTES", now);
    const Execution& first = *communicator.active.front();
    return give_up(communicator, *execution, first,
                   fmt::format(", which has not begun: it is queued behind {}", title(first)), now);
  }
}

// `waiting` is what it waits in: itself, or what it is `behind`. Where all that it waits for wait themselves, one of
// them may know of whom, and is heard first.
void EngineCore::give_up(CommunicatorCore& communicator, const Execution& execution, const Execution& waiting,
                         const std::string& behind, Time now) {
  std::vector<std::string> names;
  std::vector<Rank> waited_for, idle;  // who waits itself is not at fault
  for (Rank rank : waiting.held_up_by()) {
    const Rank world = communicator.members[rank];
    waited_for.push_back(world);
    if (activity_of(world).empty() || is_silent(world)) idle.push_back(world);
    names.push_back(who_and_what_stands_between(world));
  }
  if (idle.empty() && !names.empty() && !execution.watchdog().has_heard_others(time_for_any_, now)) return;
  // Of a GPU that is behind the others say nothing.
  const Rank culprit = idle.size() == 1 && waiting.busy_device() < 0 ? idle[0] : -1;
  const std::string beside = names.empty() ? "" : not_run(waiting);
  if (names.empty()) names.push_back(waits_for(waiting, "nobody known"));
  const Watchdog::Limit limit = execution.watchdog().limit(time_for_any_);
  const WaitCircle circle =
      wait_circle(parts_.self, wait_note(title(waiting), communicator.label, {}, ""), waited_for,
                  [this](Rank rank) { return is_silent(rank) ? std::string() : activity_of(rank); });
  report({ErrorCode::timeout, culprit, parts_.self, communicator.global_id(),
          fmt::format("{} gave up after {} ({}) in {} on '{}'{}, waiting for {}{}; {}{}", who(parts_.self),
                      duration_text(limit.time), limit.setting, title(execution), communicator.label, behind,
                      fmt::format("{}", fmt::join(names, ", ")), beside, who_is_at_fault(circle, waiting),
                      unread(communicator, waiting))});
}

}  // namespace fabring

// Who comes to the meeting as which rank, and whose place is another's when it goes: at most one process for each rank.

#include <fmt/format.h>

#include <algorithm>

#include "runtime/bootstrap/master_address.hpp"
#include "runtime/bootstrap/meeting_server.hpp"

namespace fabring {

using meeting::Message;

bool MeetingServer::on_join(const VisitorPtr& visitor, std::string_view payload) {
  auto join = meeting::decode_join(payload);
  if (!join) return false;
  visitor->join = std::move(*join);
  if (told_.contains(process_of(*visitor))) return false;  // it comes for the next meeting
  visitor->joined = true;
  // Virtual machines that go on from one image of memory have one boot id, and the same network namespace.
  visitor->beside =
      visitor->join.fingerprint == terms_.fingerprint && is_local_address({visitor->link->remote().host, 0});
  visitor->join_limit.reset();
  const auto index = static_cast<std::size_t>(visitor->rank);
  if (!failure_.ok()) {
    visitor->link->send(meeting::type_of(Message::failed), meeting::encode(failure_));
    informed_[index] = true;
    told_.insert(process_of(*visitor));
    return true;
  }
  const VisitorPtr first = members_[index];
  const auto doubted = doubts_.find(visitor->rank);
  if (visitor->rank == 0) {
    fail(
        came_twice(fmt::format("rank 0 (host {}, pid {}, which serves)", terms_.self.host, terms_.self.pid), *visitor));
  } else if (doubted != doubts_.end()) {
    fail(came_twice(who(*doubted->second.second), *visitor));
  } else if (first && all_here_) {  // it does not look at what comes any more
    fail(came_twice(who(*first), *visitor));
  } else if (first) {
    doubt(visitor);
  } else {
    ++came_;
    take_in(visitor);
  }
  return true;
}

Status MeetingServer::came_twice(const std::string& first, const Visitor& second) const {
  return {ErrorCode::invalid_argument,
          fmt::format("rank {} came twice: {} and {}; every process needs its own FABRING_RANK; or, if they are of "
                      "two jobs, give each job its own FABRING_MASTER_PORT or FABRING_JOB_ID",
                      second.rank, first, who(second)),
          meeting::about(second.rank, second.join.host)};
}

void MeetingServer::take_in(const VisitorPtr& visitor) {
  members_[static_cast<std::size_t>(visitor->rank)] = visitor;
  visitor->link->send(meeting::type_of(Message::taken_in), "");
  {
    const std::lock_guard lock(mutex_);
    const bool first_elsewhere = same_host_ && !visitor->beside;
    if (came_ == 2 || first_elsewhere) reached_at_ = visitor->link->local().host;
    same_host_ = same_host_ && visitor->beside;
  }
  if (!refused_.empty()) judge_refused();
  welcome_if_complete();
}

// The host of the first may have gone without a word, and the launcher has started that rank again elsewhere.
void MeetingServer::doubt(const VisitorPtr& second) {
  const Rank rank = second->rank;
  members_[static_cast<std::size_t>(rank)]->link->send(meeting::type_of(Message::are_you_there), "");
  doubts_[rank] = {second, loop_.after(terms_.options.answer_limit, [this, rank] { replace(rank); })};
}

void MeetingServer::replace(Rank rank) {
  const VisitorPtr first = members_[static_cast<std::size_t>(rank)], second = doubts_.extract(rank).mapped().second;
  const std::string text =
      fmt::format("{} was there before and does not answer: {} takes its place", who(*first), who(*second));
  log_.warning(text);
  if (first->link->is_open()) {
    told_.insert(process_of(*first));
    first->link->close_with(FrameStream::encode(
        meeting::type_of(Message::failed),
        meeting::encode(Status(ErrorCode::peer_lost, text, meeting::about(rank, first->join.host)))));
  }
  first->done = true;
  visitors_.erase(first);
  {
    const std::lock_guard lock(mutex_);
    same_host_ = std::ranges::all_of(
        members_, [&](const VisitorPtr& member) { return !member || member == first || member->beside; });
  }
  take_in(second);
}

// Two hosts with one address reset each other's connections. Ranks behind one translation have one as well, so it is
// said where a connection has ended, and not before.
std::string MeetingServer::same_address_text(const Visitor& visitor) const {
  for (const VisitorPtr& other : members_)
    if (other && other->rank != visitor.rank && other->join.fingerprint != visitor.join.fingerprint &&
        other->join.host != visitor.join.host && other->link->remote().host == visitor.link->remote().host)
      return fmt::format("; {} came from the same address: if these two hosts both have it, give one of them another",
                         who(*other));
  return {};
}

void MeetingServer::on_end(const VisitorPtr& visitor) {
  visitors_.erase(visitor);
  values_.forget(visitor->link);
  const auto index = static_cast<std::size_t>(visitor->rank);
  if (const auto doubted = doubts_.find(visitor->rank); doubted != doubts_.end()) {
    if (members_[index] == visitor) return replace(visitor->rank);
    if (doubted->second.second == visitor) {
      doubts_.erase(doubted);
      visitor->done = true;
      return welcome_if_complete();
    }
  }
  if (visitor->joined && !visitor->done && failure_.ok() && !closing_ && members_[index] == visitor) {
    informed_[index] = true;  // there is nobody left to tell
    fail(Status(ErrorCode::peer_lost,
                fmt::format("{} died: its connection closed or was reset while the ranks were {}{}", who(*visitor),
                            all_here_ ? "setting up" : "still meeting", same_address_text(*visitor)),
                meeting::about(visitor->rank, visitor->join.host)));
  }
  visitor->done = true;
  if (visitor->joined) informed_[index] = true;
  end_if_possible();
}

}  // namespace fabring

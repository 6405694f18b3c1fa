#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/rank_list.hpp"
#include "runtime/control/pulse.hpp"
#include "runtime/control/tree_plane.hpp"

// The control thread's side: links, messages, heartbeats, the end.

namespace fabring {

using control::Message;
using namespace std::chrono_literals;

namespace {
constexpr std::size_t most_failures = 65536;
/// A link this far behind gets no more heartbeats and activities: they say nothing that it would not hear later.
constexpr std::size_t busy_link_bytes = 64 * 1024;
}  // namespace

void TreePlane::run() {
  Log::never_wait();  // its heartbeats must go on
  last_tick_ = std::chrono::steady_clock::now();
  tick();
  Pulse pulse(loop_);
  while (!ended_ && !pulse.has_stopped()) loop_.run_for(1s);
  if (!ended_) {
    stopping_ = true;  // what has no descriptor any more is neither repaired nor flushed
    learn(
        {ErrorCode::transport_error, self_, self_, 0,
         fmt::format("{} cannot communicate any more: its process has closed the descriptors of its engine (a program "
                     "becomes a daemon before it makes one)",
                     who(self_))},
        -1);
  }
  for (Link& link : links_)
    if (link.stream) link.stream->close();
}

void TreePlane::link_up(Rank peer, std::unique_ptr<net::Stream> stream) {
  const auto found = std::find_if(links_.begin(), links_.end(), [&](const Link& link) { return link.peer == peer; });
  if (found == links_.end() || found->stream || stopping_) return;
  Link& link = *found;
  link.last_heard = std::chrono::steady_clock::now();
  link.stream = FrameStream::open(
      loop_, std::move(stream), control::most_payload_bytes,
      {[this, &link](std::uint8_t type, std::string_view payload) { return on_frame(link, type, payload); },
       [this, &link](const std::string& why) { on_end(link, why); }});
  for (auto& frame : std::exchange(link.waiting, {})) link.stream->send(std::move(frame));
  const std::lock_guard lock(mutex_);
  heard_.emplace_back(peer, link.last_heard);
  unlinked_.erase(peer);
  changed_.notify_all();
}

void TreePlane::flood(Message type, std::string_view payload, Rank except) {
  const auto frame = FrameStream::encode(static_cast<std::uint8_t>(type), payload);
  for (Link& link : links_) {
    if (link.peer == except || link.state != Link::State::joined) continue;
    if (!link.stream) {
      link.waiting.push_back(frame);
    } else if (type != Message::activity || link.stream->queued_bytes() < busy_link_bytes) {
      link.stream->send(frame);
    }
  }
}

bool TreePlane::on_frame(Link& link, std::uint8_t type, std::string_view payload) {
  if (stopping_) return true;
  link.last_heard = std::chrono::steady_clock::now();
  if (link.silence_noted) heard_again(link);
  if (link.state != Link::State::joined) return on_agreement(link, type, payload);
  switch (static_cast<Message>(type)) {
    case Message::heartbeat:
      return payload.empty();
    case Message::entry: {
      auto entry = control::decode_entry(payload);
      if (!entry || !comes_by(link, entry->origin)) return false;
      if (is_late(*entry)) return true;
      return add_blob(std::move(*entry), link.peer);
    }
    case Message::failure: {
      const auto failure = control::decode_failure(payload, config_.world_size);
      if (failure) learn(*failure, link.peer);
      return failure.has_value();
    }
    case Message::activity: {
      auto note = control::decode_note(payload);
      if (!note || !comes_by(link, note->origin)) return false;
      if (note->origin == self_) return true;
      if (config_.world_size <= options_.most_flooded_world) flood(Message::activity, payload, link.peer);
      const std::lock_guard lock(mutex_);
      activities_[static_cast<std::size_t>(note->origin)] = std::move(note->text);
      return true;
    }
    case Message::goodbye: {
      const auto goodbye = control::decode_goodbye(payload);
      if (!goodbye || !comes_by(link, goodbye->origin)) return false;
      mark_left(*goodbye, link.peer);
      return true;
    }
    case Message::gone: {
      const auto note = control::decode_note(payload);
      if (!note || !comes_by(link, note->origin)) return false;
      told_gone(note->origin, link.peer);
      return true;
    }
    case Message::question: {
      const auto question = control::decode_question(payload);
      return question && comes_by(link, question->asker) &&
             (question->asker == self_ || asked(*question, payload, link.peer));
    }
    case Message::answer: {
      auto answer = control::decode_answer(payload);
      if (!answer || !comes_by(link, answer->origin)) return false;
      return answered(std::move(*answer));
    }
    case Message::refusal: {
      const auto refusal = control::decode_refusal(payload);
      return refusal && comes_by(link, refusal->rank) &&
             (refusal->rank == self_ || refused(*refusal, payload, link.peer));
    }
    case Message::letter: {
      const auto letter = control::decode_letter(payload);
      return letter && comes_by(link, letter->from) && carry(*letter, link.peer);
    }
    case Message::silence: {
      const auto silence = control::decode_silence(payload);
      return silence && silence->rank >= 0 && silence->rank < config_.world_size && comes_by(link, silence->observer) &&
             silence_told(*silence, payload, link.peer);
    }
    case Message::gone_before: {
      const auto note = control::decode_note(payload);
      if (!note || note->origin < 0 || note->origin >= config_.world_size) return false;
      {
        const std::lock_guard lock(mutex_);
        // Of a rank on this side of the new link, they know better here.
        if (joined_.reaches(self_, note->origin) && joined_.towards(self_, note->origin) != link.peer) return true;
      }
      told_gone(note->origin, link.peer);
      return true;
    }
    case Message::moved: {
      const auto told = control::decode_moved(payload);
      return told && moved(*told, payload, link.peer);
    }
    case Message::join:
    case Message::welcome:
      return false;
  }
  return false;
}

// Until a rank has gone or moved, messages of each come by one way only. After that ways change, and what was on its
// way when they did may come by another, for the second time, or back to who sent it.
bool TreePlane::comes_by(const Link& link, Rank origin) const {
  if (origin < 0 || origin >= config_.world_size) return false;
  const std::lock_guard lock(mutex_);
  if (!joined_.is_whole()) return true;
  return origin != self_ && joined_.towards(self_, origin) == link.peer;
}

bool TreePlane::is_late(const control::Entry& entry) const {
  const std::lock_guard lock(mutex_);
  return !joined_.is_whole() &&
         (entry.origin == self_ || entry.gather != gather_.number() || gather_.has(entry.origin));
}

bool TreePlane::refused(const RefusedCall& refusal, std::string_view payload, Rank from) {
  flood(Message::refusal, payload, from);
  std::function<void(const RefusedCall&)> handler;
  {
    const std::lock_guard lock(mutex_);
    handler = refusal_handler_;
  }
  if (handler) handler(refusal);
  return true;
}

bool TreePlane::add_blob(control::Entry entry, Rank from) {
  const std::string payload = control::encode(entry);
  const Rank origin = entry.origin;
  {
    const std::lock_guard lock(mutex_);
    if (!gather_.add(entry.gather, origin, std::move(entry.blob))) return false;
    if (gather_.is_finished()) changed_.notify_all();
  }
  flood(Message::entry, payload, from);
  return true;
}

void TreePlane::on_end(Link& link, const std::string& why) {
  if (stopping_) return end_if_closed();
  if (link.state == Link::State::visiting) return;
  if (link.state == Link::State::asking) {
    if (!turned_away(link.peer)) find_parent();
    return;
  }
  bool said_goodbye = false;
  bool leaving = false;
  std::string name;
  {
    const std::lock_guard lock(mutex_);
    said_goodbye = left_[static_cast<std::size_t>(link.peer)] != 0;
    leaving = leaving_;
    name = who_locked(link.peer);
  }
  if (said_goodbye) {
    mark_gone(link.peer, link.peer);
    // The tree is cut here. Whoever stays hears no more of the ranks behind; nothing is wrong with them.
    if (!leaving) log_.info(fmt::format("{} has left before this rank", name));
    return;
  }
  if (given_up(self_)) return mark_gone(link.peer, link.peer);  // the others go on without this rank
  const bool was_closed = why == "closed";
  std::string how = was_closed ? "its control connection closed without a goodbye"
                               : fmt::format("its control connection broke ({})", why);
  if (const auto still = stood_still(); 2 * still >= config_.silence_timeout)
    how += fmt::format(
        "; or it had given this rank up, which itself stood still for {} until now (its process was "
        "stopped, or had no processor; FABRING_SILENCE_TIMEOUT is {})",
        duration_text(still), duration_text(config_.silence_timeout));
  Failure accusation{ErrorCode::peer_lost, link.peer, self_, 0, fmt::format("{} died: {}", name, how)};
  if (may_come_back(link)) return sever(link, std::move(accusation), was_closed);
  accuse(accusation);
}

// Ranks are lost one by one, also where a host takes several with it: a group that has only the second of them waits
// for that one. Who is given up says nothing true of others any more: to it, they are the ones that have gone.
void TreePlane::learn(const Failure& failure, Rank from) {
  const bool of_rank = failure.communicator == 0 && failure.culprit >= 0;
  if (firsts_.contains({0, -1}) || (failure.reporter != self_ && firsts_.contains({0, failure.reporter}))) return;
  // Lost ranks are no more than there are ranks, and all must hear of each.
  if (failure.communicator != 0 && firsts_.size() >= most_failures) {
    if (failure.reporter != self_) return;
    undelivered_.push_back(failure);  // at least this rank's own operations end
    return deliver();
  }
  const bool is_first = firsts_.insert({failure.communicator, of_rank ? failure.culprit : -1}).second;
  if (is_first) {
    known_.push_back(failure);
  } else if (!of_rank || !failure.ended || !now_known_to_have_ended(failure.culprit)) {
    return;
  }
  if (of_rank && failure.ended) look_no_more(failure.culprit);
  flood(Message::failure, control::encode(failure), from);
  bool leaving = false;
  std::function<void(Rank)> ended_handler;
  {
    const std::lock_guard lock(mutex_);
    leaving = leaving_;
    ended_handler = ended_handler_;
    if (failure.communicator == 0 && !lost_) lost_ = failure;
    if (of_rank && failure.ended) ended_ranks_.insert(failure.culprit);
    changed_.notify_all();
  }
  if (leaving && failure.code == ErrorCode::peer_lost) return;  // no business of one who leaves
  if (is_first) undelivered_.push_back(failure);
  deliver();
  if (of_rank && failure.ended && ended_handler) ended_handler(failure.culprit);
}

// False: that was known.
bool TreePlane::now_known_to_have_ended(Rank rank) {
  const auto known = std::find_if(known_.begin(), known_.end(), [&](const Failure& failure) {
    return failure.communicator == 0 && failure.culprit == rank;
  });
  return known != known_.end() && !std::exchange(known->ended, true);
}

void TreePlane::deliver() {
  std::function<void(const Failure&)> handler;
  {
    const std::lock_guard lock(mutex_);
    handler = handler_;
  }
  if (!handler) return;
  for (const Failure& failure : std::exchange(undelivered_, {})) handler(failure);
}

void TreePlane::mark_left(const control::Goodbye& goodbye, Rank from) {
  std::function<void(Rank, const std::string&)> handler;
  {
    const std::lock_guard lock(mutex_);
    if (left_[static_cast<std::size_t>(goodbye.origin)] != 0 || (from >= 0 && goodbye.origin == self_)) return;
    handler = goodbye_handler_;
  }
  if (handler && goodbye.origin != self_) handler(goodbye.origin, goodbye.account);
  {
    const std::lock_guard lock(mutex_);  // only now: who waits for it finds its account
    left_[static_cast<std::size_t>(goodbye.origin)] = ++goodbyes_;
    changed_.notify_all();
  }
  goodbyes_heard_.push_back(goodbye);
  flood(Message::goodbye, control::encode(goodbye), from);
}

void TreePlane::mark_gone(Rank rank, Rank from) {
  if (rank == self_) return;
  for (const Link& link : links_)
    if (link.peer == rank && link.carries()) return;
  bool known = false;
  {
    const std::lock_guard lock(mutex_);
    known = joined_.is_gone(rank);
    joined_.mark_gone(rank);
    changed_.notify_all();
  }
  if (known) return find_parent();  // perhaps it was this rank's parent in spite of that
  settle(rank);
  forget_silences_told_by(rank);
  flood(Message::gone, control::encode(control::Note{rank, ""}), from);
  find_parent();
}

void TreePlane::tick() {
  const auto now = std::chrono::steady_clock::now();
  const auto period = options_.heartbeat / 2;
  // We were stopped ourselves (SIGSTOP, a migrated machine): the others' silence was ours.
  const bool was_stopped = now - last_tick_ > longest_turn();
  if (was_stopped) {
    stop_ = now - last_tick_;
    resumed_ = now;
    mute_.clear();
  }
  last_tick_ = now;
  for (Link& link : links_) {
    if (!link.is_open() && !link.accusation) continue;
    if (was_stopped) link.last_heard = link.broken_since = now;
    if (link.state == Link::State::visiting) {
      if (now - link.last_heard >= config_.silence_timeout) link.stream->close();
      continue;
    }
    if (heartbeat_due_ && link.carries() && link.stream->queued_bytes() < busy_link_bytes)
      link.stream->send(static_cast<std::uint8_t>(Message::heartbeat), "");
    watch_silence(link, now);
    watch_severed(link, now);
  }
  heartbeat_due_ = !heartbeat_due_;
  {
    const std::lock_guard lock(mutex_);
    heard_.clear();
    for (const Link& link : links_)
      if (link.stream && link.state == Link::State::joined) heard_.emplace_back(link.peer, link.last_heard);
  }
  look_after_orphans(now);
  tell_activity();
  if (!meeting_.last_error().empty()) {
    const std::lock_guard lock(mutex_);
    formation_error_ = meeting_.last_error();
    parent_refuses_ = meeting_.parent_refuses();
  }
  if (!stopping_) tick_timer_ = loop_.after(period, [this] { tick(); });
}

std::chrono::nanoseconds TreePlane::longest_turn() const {
  return options_.heartbeat / 2 + options_.note_silence_after / 2;
}

// What the others did meanwhile is heard first, by this thread's turn or the next.
std::chrono::nanoseconds TreePlane::stood_still() const {
  const auto now = std::chrono::steady_clock::now();
  if (now - last_tick_ > longest_turn()) return now - last_tick_;
  return now - resumed_ < options_.note_silence_after ? stop_ : 0ns;
}

void TreePlane::tell_activity() {
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(activity_changed_, false)) return;
    text = own_activity_;
  }
  flood(Message::activity, control::encode(control::Note{self_, text}), -1);
}

// What was said before this call still goes out: reports and goodbyes matter most to those who stay.
void TreePlane::stop() {
  stopping_ = true;
  tick_timer_.reset();
  search_.reset();
  looks_.clear();
  looks_at_lost_.clear();
  look_pauses_.clear();
  meeting_.close();
  for (Link& link : links_) link.knocking.reset();
  for (Link& link : links_)
    if (link.is_open()) link.stream->finish();
  stop_timer_ = loop_.after(options_.flush_limit, [this] { ended_ = true; });
  end_if_closed();
}

void TreePlane::end_if_closed() {
  ended_ = ended_ || std::none_of(links_.begin(), links_.end(), [](const Link& link) { return link.is_open(); });
}

}  // namespace fabring

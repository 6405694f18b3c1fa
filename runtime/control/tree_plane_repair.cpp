#include <fmt/format.h>

#include <algorithm>

#include "runtime/control/parent_search.hpp"
#include "runtime/control/tree_plane.hpp"

// How the parts of a tree that was cut join again: the search for a parent, what the two sides agree on and tell each
// other, and the orphans that nobody hears of.

namespace fabring {

using control::Message;
using namespace std::chrono_literals;

namespace {
constexpr auto between_rounds = 250ms;
constexpr int most_looks_in_vain = 4;
}  // namespace

// First why, here and to the others: who waits and hears only that a rank is gone names those behind it instead.
void TreePlane::accuse(const Failure& accusation) {
  const Rank rank = accusation.culprit;
  bool said_goodbye = false;
  {
    const std::lock_guard lock(mutex_);
    said_goodbye = left_[static_cast<std::size_t>(rank)] != 0;
  }
  if (said_goodbye || given_up(self_)) return mark_gone(rank, rank);
  learn(accusation, rank);
  mark_gone(rank, rank);
  if (!accusation.ended) look_at_lost(rank);
}

// Nothing if this rank has a parent, needs none or looks for one already.
void TreePlane::find_parent() {
  if (stopping_ || search_) return;
  if (std::any_of(links_.begin(), links_.end(),
                  [](const Link& link) { return link.state == Link::State::asking && link.is_open(); }))
    return;
  std::vector<Rank> candidates;
  net::SocketAddress door;
  Rank next = -1;
  {
    const std::lock_guard lock(mutex_);
    if (!formed_ || !joined_.is_orphan(self_)) return;
    const auto staying = not_left_locked();
    if (std::none_of(staying.begin(), staying.end(), [&](Rank rank) { return rank != self_; })) return;
    candidates = joined_.parents_for(self_);
    const auto host_of = [&](Rank rank) -> const std::string& {
      return identities_[static_cast<std::size_t>(rank)].host;
    };
    std::set<std::string> mute_hosts;
    for (const auto& [rank, since] : mute_) mute_hosts.insert(host_of(rank));
    next = next_to_ask(candidates, asked_, mute_hosts, host_of);
    if (next >= 0) door = identities_[static_cast<std::size_t>(next)].door;
  }
  if (given_up(self_)) {  // nobody wants it: those below go on without it
    for (Link& link : links_)
      if (link.is_open()) link.stream->finish();
    return;
  }
  if (candidates.empty()) return asked_.clear();
  if (next < 0) {
    asked_.clear();
    search_ = loop_.after(between_rounds, [this] {
      search_.reset();
      find_parent();
    });
    return;
  }
  asked_.insert(next);
  search_ =
      meeting_.visit(next, door, [this, next](NeighbourMeeting::Found found, std::unique_ptr<net::Stream> stream) {
        parent_found(next, found, std::move(stream));
      });
}

void TreePlane::parent_found(Rank rank, NeighbourMeeting::Found found, std::unique_ptr<net::Stream> stream) {
  search_.reset();
  if (found == NeighbourMeeting::Found::ended) {
    has_ended(rank);
  } else if (found == NeighbourMeeting::Found::silent) {
    is_mute(rank);
  } else {
    mute_.erase(rank);
    Link& link = open_link(rank, std::move(stream), Link::State::asking);
    link.stream->send(static_cast<std::uint8_t>(Message::join), "");
  }
  find_parent();
}

TreePlane::Link& TreePlane::open_link(Rank peer, std::unique_ptr<net::Stream> stream, Link::State state) {
  auto found = std::find_if(links_.begin(), links_.end(),
                            [&](const Link& link) { return link.peer == peer && !link.carries(); });
  if (found == links_.end()) {
    found = links_.emplace(links_.end());
    found->peer = peer;
  }
  Link& link = *found;
  link.state = state;
  link.last_heard = std::chrono::steady_clock::now();
  link.stream = FrameStream::open(
      loop_, std::move(stream), control::most_payload_bytes,
      {[this, &link](std::uint8_t type, std::string_view payload) { return on_frame(link, type, payload); },
       [this, &link](const std::string& why) { on_end(link, why); }});
  return link;
}

void TreePlane::somebody_came(Rank peer, std::unique_ptr<net::Stream> stream) {
  const bool expected =
      std::any_of(links_.begin(), links_.end(), [&](const Link& link) { return link.peer == peer && !link.stream; });
  {
    const std::lock_guard lock(mutex_);
    if (!formed_) return;  // it asks again
  }
  if (!stopping_ && !expected) open_link(peer, std::move(stream), Link::State::visiting);
}

Failure TreePlane::why_given_up(Rank rank) const {
  Failure why{ErrorCode::peer_lost, rank, self_, 0, fmt::format("{} has been given up", who(rank))};
  for (const Failure& known : known_)
    if (known.communicator == 0 && known.culprit == rank) why.text = known.text;
  return why;
}

// What may be said on a link before it is one.
bool TreePlane::on_agreement(Link& link, std::uint8_t type, std::string_view payload) {
  if (link.state == Link::State::visiting) {
    if (static_cast<Message>(type) != Message::join || !payload.empty()) return false;
    bool gone = false, in_exchange = false;
    {
      const std::lock_guard lock(mutex_);
      gone = joined_.is_gone(link.peer);
      in_exchange = is_neighbour_locked(link.peer) && gather_.has_begun();  // it would miss what is on its way
    }
    if (gone || given_up(link.peer)) {
      link.stream->send(static_cast<std::uint8_t>(Message::failure), control::encode(why_given_up(link.peer)));
      link.stream->finish();
      mark_gone(link.peer, -1);
      return true;
    }
    if (given_up(self_) || in_exchange) {
      link.stream->finish();
      return true;
    }
    link.stream->send(static_cast<std::uint8_t>(Message::welcome), "");
    join(link, link.peer, self_);
    return true;
  }
  if (static_cast<Message>(type) == Message::welcome && payload.empty()) {
    bool gone = false;
    {
      const std::lock_guard lock(mutex_);
      gone = joined_.is_gone(link.peer);
    }
    if (gone) {  // others have said so while this rank asked
      if (given_up(link.peer))
        link.stream->close_with(
            FrameStream::encode(static_cast<std::uint8_t>(Message::failure), control::encode(why_given_up(link.peer))));
      link.stream->close();
      find_parent();
      return true;
    }
    asked_.clear();
    mute_.clear();
    join(link, self_, link.peer);
    log_.info(fmt::format("{} is this rank's parent on the control plane now", who(link.peer)));
    return true;
  }
  const auto failure = control::decode_failure(payload, config_.world_size);
  if (static_cast<Message>(type) != Message::failure || !failure || failure->culprit != self_) return false;
  learn(*failure, link.peer);
  return true;
}

void TreePlane::join(Link& link, Rank child, Rank parent) {
  for (Link& former : links_)  // its other end is closed already, or nothing passes through it
    if (&former != &link && former.peer == link.peer && former.carries()) former.stream->close();
  for (Link& former : links_)
    if (former.peer == link.peer && former.silence_noted) heard_again(former);
  settle(link.peer);
  forget_silences_beyond(link);
  tell_all_known(link, child);
  link.state = Link::State::joined;
  {
    const std::lock_guard lock(mutex_);
    joined_.set_parent(child, parent);
    joined_.mark_mended();
    changed_.notify_all();
  }
  orphans_.erase(child);
  mute_.erase(child);
  flood(Message::moved, control::encode(control::Moved{child, parent}), link.peer);
}

// First why, then who: as where a rank is lost. Of what is on the other side, that one knows better.
void TreePlane::tell_all_known(Link& link, Rank child) {
  const auto tell = [&](Message type, const std::string& payload) {
    link.stream->send(static_cast<std::uint8_t>(type), payload);
  };
  for (const Failure& failure : known_) tell(Message::failure, control::encode(failure));
  for (const control::Goodbye& goodbye : goodbyes_heard_) tell(Message::goodbye, control::encode(goodbye));
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  for (const auto& [rank, silent] : silent_) {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now - silent.since).count();
    tell(Message::silence,
         control::encode(control::Silence{silent.observer, rank, static_cast<std::uint32_t>(std::max<long>(1, ms))}));
  }
  for (Rank rank = 0; rank < config_.world_size; ++rank) {
    if (joined_.is_gone(rank)) {
      tell(Message::gone_before, control::encode(control::Note{rank, ""}));
    } else if (rank != child && joined_.has_moved(rank) && joined_.reaches(self_, rank)) {
      tell(Message::moved, control::encode(control::Moved{rank, joined_.parent(rank)}));
    }
  }
}

// It may be late: a rank on the way stood still, and the other has moved again since. That one says so again, after it
// on every way; and of a child whose link is up this rank knows better.
bool TreePlane::moved(const control::Moved& moved, std::string_view payload, Rank from) {
  bool own_is_late = false, is_child = false;
  Rank parent = -1;
  {
    const std::lock_guard lock(mutex_);
    if (!joined_.is_rank(moved.rank) || moved.parent < 0 || moved.parent >= moved.rank) return false;
    if (moved.parent != joined_.parent(moved.rank)) joined_.mark_mended();
    own_is_late = moved.rank == self_ && moved.parent != joined_.parent(self_) && !joined_.is_orphan(self_);
    parent = joined_.parent(self_);
    is_child = std::any_of(links_.begin(), links_.end(),
                           [&](const Link& link) { return link.peer == moved.rank && link.carries(); }) &&
               joined_.parent(moved.rank) == self_;
    if (moved.rank != self_ && !is_child) (void)joined_.set_parent(moved.rank, moved.parent);
    changed_.notify_all();
  }
  if (own_is_late) flood(Message::moved, control::encode(control::Moved{self_, parent}), -1);
  if (moved.rank == self_) return true;
  if (moved.parent != self_ && !is_child) settle(moved.rank);
  orphans_.erase(moved.rank);
  mute_.erase(moved.rank);
  flood(Message::moved, payload, from);
  return true;
}

// Why a rank has gone comes before that it has. If that was not believed, as who told it is lost itself, this is not
// either, until this rank has looked.
void TreePlane::told_gone(Rank rank, Rank from) {
  bool explained = given_up(rank) || given_up(-1);
  {
    const std::lock_guard lock(mutex_);
    explained = explained || left_[static_cast<std::size_t>(rank)] != 0;
  }
  if (explained) return mark_gone(rank, from);
  doubted_.insert(rank);
}

// An orphan asks for a parent at once. Of one that has ended with its parent, or is stopped, nobody hears any more
// unless it is looked for.
void TreePlane::look_after_orphans(SteadyTime now) {
  std::vector<std::pair<Rank, net::SocketAddress>> wards;
  {
    const std::lock_guard lock(mutex_);
    if (!formed_ || stopping_ || given_up(self_) || (joined_.is_whole() && doubted_.empty())) return;
    for (Rank rank = 0; rank < config_.world_size; ++rank) {
      const auto index = static_cast<std::size_t>(rank);
      if (rank != self_ && left_[index] == 0 && !joined_.is_gone(rank) &&
          (doubted_.contains(rank) || (joined_.is_orphan(rank) && joined_.guardian(rank) == self_)))
        wards.emplace_back(rank, identities_[index].door);
    }
  }
  for (const auto& [rank, door] : wards) {
    const SteadyTime since = orphans_.try_emplace(rank, now).first->second;
    if (now - since < options_.heartbeat / 4 || looks_.contains(rank) || looks_.size() >= options_.most_looks) continue;
    looks_[rank] = meeting_.visit(
        rank, door, [this, rank = rank](NeighbourMeeting::Found found, const std::unique_ptr<net::Stream>&) {
          looks_.erase(rank);
          if (found == NeighbourMeeting::Found::ended) return has_ended(rank);
          if (found == NeighbourMeeting::Found::silent) return is_mute(rank);
          mute_.erase(rank);
          doubted_.erase(rank);
        });
  }
}

void TreePlane::is_mute(Rank rank) {
  const auto now = std::chrono::steady_clock::now();
  const SteadyTime since = mute_.try_emplace(rank, now).first->second;
  if (now - since < config_.silence_timeout) return;
  bool left = false;
  {
    const std::lock_guard lock(mutex_);
    left = left_[static_cast<std::size_t>(rank)] != 0;
    // Somebody hears of it; but of one that is doubted somebody says that it has gone.
    if (!doubted_.contains(rank) && joined_.reaches(self_, rank)) return;
  }
  mute_.erase(rank);
  if (left) return mark_gone(rank, -1);
  lost_in_silence(rank);
}

// Of a connection that has ended it is not known which end of it has, or whether both live on. Where nobody listens
// any more the process has ended; its other sockets may have been closed a moment before that one.
void TreePlane::look_at_lost(Rank rank) {
  if (looks_at_lost_.contains(rank) || look_pauses_.contains(rank) || std::ranges::count(to_look_at_, rank) > 0) return;
  to_look_at_.push_back(rank);
  look_at_next();
}

// Whom it has looked at, and those that it waits to look at again, take no room from the others.
void TreePlane::look_at_next() {
  while (!stopping_ && !to_look_at_.empty() && looks_at_lost_.size() < options_.most_looks) {
    const Rank rank = to_look_at_.front();
    to_look_at_.pop_front();
    net::SocketAddress door;
    {
      const std::lock_guard lock(mutex_);
      door = identities_[static_cast<std::size_t>(rank)].door;
    }
    looks_at_lost_[rank] =
        meeting_.visit(rank, door, [this, rank](NeighbourMeeting::Found found, const std::unique_ptr<net::Stream>&) {
          looked_at_lost(rank, found);
        });
  }
}

void TreePlane::looked_at_lost(Rank rank, NeighbourMeeting::Found found) {
  looks_at_lost_.erase(rank);
  if (found == NeighbourMeeting::Found::ended) {
    learn({ErrorCode::peer_lost, rank, self_, 0, fmt::format("{} has ended", who(rank)), true}, -1);
  } else if (++looks_in_vain_[rank] % most_looks_in_vain != 0) {
    look_pauses_[rank] = loop_.after(between_rounds, [this, rank] {
      look_pauses_.erase(rank);
      look_at_lost(rank);
    });
  }
  look_at_next();
}

// Others have looked.
void TreePlane::look_no_more(Rank rank) {
  std::erase(to_look_at_, rank);
  look_pauses_.erase(rank);
}

void TreePlane::on_ended(std::function<void(Rank)> handler) {
  const std::lock_guard lock(mutex_);
  ended_handler_ = std::move(handler);
}

void TreePlane::look_whether_ended(Rank rank) {
  loop_.post([this, rank] { look_at_lost(rank); });
}

// Perhaps it has said goodbye where this rank could not hear it.
void TreePlane::has_ended(Rank rank) {
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    const auto index = static_cast<std::size_t>(rank);
    if (left_[index] == 0 && !joined_.is_gone(rank))
      text = fmt::format("{} has ended: nobody listens at its control address {} any more, and no goodbye was heard",
                         who_locked(rank), identities_[index].door.to_string());
  }
  if (!text.empty()) learn({ErrorCode::peer_lost, rank, self_, 0, text, true}, -1);
  mark_gone(rank, -1);
}

}  // namespace fabring

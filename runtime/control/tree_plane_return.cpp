#include <fmt/format.h>

#include <algorithm>

#include "runtime/control/tree_plane.hpp"

// Connections that break, or that nothing passes through any more, while both ends live: a packet that resets one, an
// outage that is over before the kernel sends again. Either end visits the other's door until it knows. Where nobody
// listens any more the process has ended, at once; who answers is waited for, and the child joins its parent anew; who
// does not answer is silent like any other, unless its kernel closed the connection: then it has ended, and its address
// with it. So no rank is lost to some and alive to others for a connection's sake. Not
// in the middle of an exchange at the start: what is lost of that is not said again.

namespace fabring {

using control::Message;
using namespace std::chrono_literals;

namespace {
using Found = NeighbourMeeting::Found;
/// A process may be without a processor for a moment, and each visit is a connection that it has to look at later.
constexpr auto patience_with_process = 4s;
constexpr auto shortest_pause = 10ms, longest_pause = 250ms;
/// A parent that takes a rank back, and whose connection breaks again, does not do so for ever.
constexpr int most_returns = 16;
/// One that answers, and does not say welcome, has been given up itself, or is about to end.
constexpr int most_turned_away = 4;
/// Its network may be gone with it, as that of a container, and then nothing refuses the visits.
constexpr auto answers_if_it_lives = 1s;
}  // namespace

bool TreePlane::may_come_back(const Link& link) const {
  const bool recently = std::chrono::steady_clock::now() - last_return_ < config_.silence_timeout;
  if (link.peer < self_ ? recently && returns_ >= most_returns : link.stream->ended_by_nonsense()) return false;
  const std::lock_guard lock(mutex_);
  return formed_ && is_neighbour_locked(link.peer) && !given_up(link.peer) && !gather_.has_begun();
}

bool TreePlane::is_neighbour_locked(Rank rank) const {
  return !joined_.is_gone(rank) && (joined_.parent(self_) == rank || joined_.parent(rank) == self_);
}

void TreePlane::sever(Link& link, Failure accusation, bool was_closed) {
  const auto now = std::chrono::steady_clock::now();
  if (link.peer < self_) {
    returns_ = now - last_return_ < config_.silence_timeout ? returns_ + 1 : 1;
    last_return_ = now;
  }
  link.accusation = std::move(accusation);
  link.broken_since = now;
  link.was_closed = was_closed;
  link.knocks = link.turned_away = 0;
  knock(link);
}

bool TreePlane::is_quiet(const Link& link, SteadyTime now) const {
  const auto least = std::max<std::chrono::milliseconds>(2 * options_.heartbeat, config_.silence_timeout / 2);
  return link.carries() && now - link.last_heard >= std::min(options_.note_silence_after, least);
}

// Whether a silent one is lost, watch_silence says.
void TreePlane::watch_severed(Link& link, SteadyTime now) {
  bool is_neighbour = false, in_exchange = false;
  {
    const std::lock_guard lock(mutex_);
    is_neighbour = formed_ && is_neighbour_locked(link.peer);
    in_exchange = gather_.has_begun();
  }
  if (link.accusation) {
    Failure accusation = *link.accusation;
    if (!is_neighbour) return settle(link.peer);
    if (given_up(link.peer) || given_up(self_)) {
      link.stream->close();
      settle(link.peer);
      return mark_gone(link.peer, link.peer);
    }
    if (now - link.broken_since >= config_.silence_timeout)
      accusation.text += fmt::format("; it has not made another for {} (FABRING_SILENCE_TIMEOUT), though it answers",
                                     duration_text(config_.silence_timeout));
    else if (!in_exchange)
      return keep_knocking(link);
    link.stream->close();
    return accuse(accusation);
  }
  // The kernel sends again after pauses that double, and so perhaps long after the outage; a new connection does not
  // wait. The child makes it.
  if (is_neighbour && !in_exchange && link.peer < self_ && is_quiet(link, now)) keep_knocking(link);
}

void TreePlane::keep_knocking(Link& link) {
  const bool asks = std::any_of(links_.begin(), links_.end(), [&](const Link& other) {
    return other.peer == link.peer && other.state == Link::State::asking && other.is_open();
  });
  if (!link.knocking && !asks) knock(link);
}

void TreePlane::knock(Link& link) {
  net::SocketAddress door;
  {
    const std::lock_guard lock(mutex_);
    door = identities_[static_cast<std::size_t>(link.peer)].door;
  }
  ++link.knocks;
  link.knocking = meeting_.visit(
      link.peer, door,
      [this, &link](Found found, std::unique_ptr<net::Stream> stream) {
        link.knocking.reset();
        knock_answered(link, found, std::move(stream));
      },
      patience_with_process);
}

void TreePlane::knock_answered(Link& link, Found found, std::unique_ptr<net::Stream> stream) {
  const auto now = std::chrono::steady_clock::now();
  if (!link.accusation && !is_quiet(link, now)) return;  // it is back
  if (found == Found::ended) {
    link.stream->close();
    if (!link.accusation) return has_ended(link.peer);
    link.accusation->ended = true;
    return accuse(*std::exchange(link.accusation, std::nullopt));
  }
  if (found == Found::alive && link.accusation) {
    link.last_heard = now;
    if (link.silence_noted) heard_again(link);
  }
  if (found == Found::silent && link.accusation && link.was_closed && now - link.broken_since >= answers_if_it_lives)
    return accuse(*std::exchange(link.accusation, std::nullopt));
  if (found == Found::silent || link.peer > self_) return knock_again_later(link);
  Link& asking = open_link(link.peer, std::move(stream), Link::State::asking);
  asking.stream->send(static_cast<std::uint8_t>(Message::join), "");
}

void TreePlane::knock_again_later(Link& link) {
  const auto pause =
      std::min<std::chrono::milliseconds>(shortest_pause * (1 << std::min(link.knocks, 8)), longest_pause);
  link.knocking = loop_.after(pause, [this, &link] {
    link.knocking.reset();
    if (link.accusation || is_quiet(link, std::chrono::steady_clock::now())) knock(link);
  });
}

/// The connection by which this rank asked its parent to take it back is over. False: it asked for another reason.
bool TreePlane::turned_away(Rank parent) {
  const auto now = std::chrono::steady_clock::now();
  const auto former = std::find_if(links_.begin(), links_.end(), [&](const Link& link) {
    return link.peer == parent && (link.accusation || is_quiet(link, now));
  });
  if (former == links_.end()) return false;
  if (given_up(self_) || (former->accusation && ++former->turned_away > most_turned_away)) {
    Failure accusation = former->accusation.value_or(given_up_in_silence(parent));
    former->stream->close();
    accuse(accusation);
  } else {
    knock_again_later(*former);
  }
  return true;
}

/// Its connection is a new one, or it has gone: what the former ones were is of no interest any more.
void TreePlane::settle(Rank peer) {
  for (Link& link : links_) {
    if (link.peer != peer) continue;
    link.accusation.reset();
    link.knocking.reset();
    link.knocks = link.turned_away = 0;
  }
}

}  // namespace fabring

// RailsEndpoint: probes and answers, and what their absence means.

#include <fmt/format.h>

#include <algorithm>

#include "transports/rails/rails_endpoint.hpp"

namespace fabring::rails {
namespace {

constexpr auto between_beats = std::chrono::milliseconds(10);
constexpr auto deaf = std::chrono::seconds(1);  // a driver that was away for longer has not listened

}  // namespace

// True once every way to the peer can be probed by it.
bool RailsEndpoint::listen(Peer& peer) {
  for (std::size_t at = 0; at < peer.ways.size(); ++at) {
    Way& way = peer.ways[at];
    if (!way.known || finished_ || closed_ || !way.pulse.wants_probe_receive()) continue;
    if (!pulse(peer, at, Kind::probe_receive, probe_number)) return false;
    way.pulse.probe_receive_posted();
  }
  return true;
}

bool RailsEndpoint::pulse(Peer& peer, std::size_t at, Kind kind, Slot number) {
  Way& way = peer.ways[at];
  Operation* operation = take(peer, at, kind, 0, 0);
  const Slot slot = slot_on_way(number, static_cast<unsigned>(at));
  const auto context = reinterpret_cast<std::uint64_t>(operation);
  const bool receive = kind == Kind::probe_receive || kind == Kind::answer_receive;
  const Post post = receive ? endpoint_of(way).post_recv(peer.rank, slot, {}, context)
                            : endpoint_of(way).post_send(peer.rank, slot, {}, context);
  if (post == Post::again) release(operation);
  return post == Post::accepted;
}

void RailsEndpoint::beat() {
  if (finished_ || closed_) return;
  const Time time = now();
  const Time gap = time - last_beat_;
  if (!pulse_due_ && gap < between_beats) return;
  const bool away = last_beat_ != Time{0} && gap > deaf;
  pulse_due_ = false;
  last_beat_ = time;
  for (const Rank rank : several_) {
    Peer& peer = peer_at(rank);
    if (peer.lost || peer.dropped) continue;
    if (away)
      for (Way& way : peer.ways) way.pulse.excuse(gap);
    beat(peer, time);
    judge(peer, time);
  }
}

void RailsEndpoint::beat(Peer& peer, Time time) {
  for (std::size_t at = 0; at < peer.ways.size(); ++at) {
    Way& way = peer.ways[at];
    if (!way.known || way.pulse.over()) continue;
    // The receive for the next probe first: an answer permits it.
    if (peer.speaking && way.pulse.wants_probe_receive() && pulse(peer, at, Kind::probe_receive, probe_number))
      way.pulse.probe_receive_posted();
    if (way.pulse.wants_answer() && pulse(peer, at, Kind::answer, answer_number)) way.pulse.answer_posted();
    if (!peer.speaking || !peer.wanted) continue;
    if (way.pulse.wants_answer_receive(time, interval_) && pulse(peer, at, Kind::answer_receive, answer_number))
      way.pulse.answer_receive_posted();
    if (!way.pulse.wants_probe() || !pulse(peer, at, Kind::probe, probe_number)) continue;
    way.pulse.probe_posted(time);
    if (peer.first_probe == Time{0}) peer.first_probe = time;
  }
}

void RailsEndpoint::pulsed(const Operation& operation, Outcome outcome) {
  Peer& peer = *operation.peer;
  Way& way = peer.ways[operation.way];
  if (outcome == Outcome::done) {
    pulse_due_ = true;
    if (operation.kind == Kind::probe_receive) way.pulse.probed(now());
    if (operation.kind == Kind::answer_receive) answered(peer, way);
    return;
  }
  if (way.pulse.over()) return;
  // Whoever has data on it learns from them that it is lost. Where nobody has, the other ways go on without it.
  const bool was_open = way.pulse.open();
  way.pulse.end();
  if (outcome != Outcome::lost || peer.lost || peer.dropped || operation.way == 0) return;
  leave_out(peer, way, endpoint_of(way).peer_error(peer.rank).message(), was_open);
}

void RailsEndpoint::leave_out(Peer& peer, Way& way, std::string why, bool was_open) {
  way.pulse.end();
  way.trouble = std::move(why);
  // That nothing comes through is told before an endpoint gives up connecting.
  const bool told = !was_open && std::exchange(peer.noted, true);
  if (told) return;
  note(way, was_open ? News::broken : News::unopened,
       fmt::format("{} {}: {}", path(peer, way), was_open ? "is not used any more" : "is not used", way.trouble));
}

// With many peers behind one bad card the first says enough.
void RailsEndpoint::note(const Way& way, News news, const std::string& text) {
  const bool again = !noted_.emplace(way.rail, news).second;
  if (options_.note) options_.note(text, again);
}

// Who was silent on all ways and answers again, on one first, was away: no way is to blame for that time.
void RailsEndpoint::answered(Peer& peer, Way& way) {
  const Time time = now();
  Time last{0};
  for (const Way& other : peer.ways) last = std::max(last, other.pulse.last_answer());
  if (last != Time{0} && time - last > 2 * interval_)
    for (Way& other : peer.ways) other.pulse.excuse(std::min(time - last, other.pulse.silence(time)));
  way.pulse.answered(time);
}

void RailsEndpoint::judge(Peer& peer, Time time) {
  Time answered{0};
  for (const Way& way : peer.ways) answered = std::max(answered, way.pulse.last_answer());
  for (std::size_t at = 0; at < peer.ways.size(); ++at) {
    Way& way = peer.ways[at];
    const Time silence = way.pulse.silence(time);
    // The others answer: not the peer is silent, but this way.
    if (silence < options_.patience / 2 || answered == Time{0} || time - answered > 2 * interval_) continue;
    if (!way.pulse.open() && at > 0) {
      if (!std::exchange(peer.noted, true))
        note(way, News::unopened,
             fmt::format("{} is not used: nothing comes through, though the other ways are open. A cable, a "
                         "firewall or a router; FABRING_INTERFACE chooses others, FABRING_RAILS=1 takes one",
                         path(peer, way)));
      continue;
    }
    if (silence < options_.patience) continue;
    std::string why = fmt::format(
        "nothing came through for {:.1f} s, while other cards of the two hosts reach each other: look at this card, "
        "its cable and its switch port, or leave it out with FABRING_INTERFACE=^{}",
        std::chrono::duration<double>(silence).count(), rails_[way.rail].card.name);
    // Nobody here waits for data on it, and a peer that waits for ours judges for itself.
    if (at > 0 && way.under_way == 0) {
      leave_out(peer, way, std::move(why), true);
      continue;
    }
    lose(peer, at, Status(ErrorCode::peer_lost, std::move(why)));
    return;
  }
}

}  // namespace fabring::rails

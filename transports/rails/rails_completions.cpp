// RailsEndpoint: polling, waiting, and what the rails' completions mean.

#include <algorithm>
#include <array>

#include "transports/rails/rails_endpoint.hpp"

namespace fabring::rails {
namespace {

constexpr unsigned turns_per_look = 16;  // at rails on which nothing is under way
constexpr auto between_news = std::chrono::milliseconds(10);
constexpr auto shortest_nap = std::chrono::microseconds(200);   // in one of several rails that may have news
constexpr auto longest_nap = std::chrono::milliseconds(5);      // where nothing has come for a while
constexpr auto longest_look = std::chrono::milliseconds(1);     // at one of several that move while they are looked at
constexpr auto longest_sleep = std::chrono::milliseconds(100);  // probes of peers must be answered

}  // namespace

std::size_t RailsEndpoint::poll(std::span<Completion> out) {
  std::size_t count = ledger_.hand_out(out);
  ++turns_;
  const bool look_everywhere = turns_ % turns_per_look == 0;
  const bool ask = look_everywhere && !several_.empty() && news_due();
  first_ = first_ + 1 == rails_.size() ? 0 : first_ + 1;  // none can keep another out
  for (std::size_t i = 0; i < rails_.size() && count < out.size(); ++i) {
    const std::size_t rail = first_ + i < rails_.size() ? first_ + i : first_ + i - rails_.size();
    const bool idle = busy_[rail] == 0 && rail != 0;
    if (idle && !look_everywhere) continue;
    if (idle && ask) rails_[rail].endpoint->look_now();
    count += turn(rail, out.subspan(count));
  }
  if (look_everywhere && !several_.empty()) beat();
  if (count > 0) nap_ = {};
  return count;
}

// An endpoint that is polled so seldom would hardly ever ask by itself for news of quiet connections, such as a peer's
// probe, where this rank polls for a moment only. One that polls all the time need not pay for it.
bool RailsEndpoint::news_due() {
  const Time time = now();
  if (time - last_news_ < between_news) return false;
  last_news_ = time;
  return true;
}

void RailsEndpoint::look_now() {
  turns_ = turns_per_look - 1;  // the next poll looks everywhere
  for (const Rail& rail : rails_) rail.endpoint->look_now();
}

std::size_t RailsEndpoint::turn(std::size_t rail, std::span<Completion> out) {
  std::array<Completion, 32> fresh;
  const std::size_t taken = rails_[rail].endpoint->poll(std::span(fresh).first(std::min(fresh.size(), out.size())));
  std::size_t count = 0;
  for (std::size_t i = 0; i < taken; ++i)
    if (completed(fresh[i], out[count])) ++count;
  return count;
}

// False for what is none of the caller's business.
bool RailsEndpoint::completed(const Completion& completion, Completion& out) {
  auto* operation = reinterpret_cast<Operation*>(completion.context);
  Peer& peer = *operation->peer;
  Way& way = peer.ways[operation->way];
  if (operation->kind != Kind::send && operation->kind != Kind::receive) {
    pulsed(*operation, completion.outcome);
    release(operation);
    return false;
  }
  --busy_[way.rail];
  --way.under_way;
  if (spread(*operation)) {
    const Time time = now();
    const bool done = completion.outcome == Outcome::done;
    way.load.settle(operation->bytes, done ? completion.bytes : 0, completion.began, time);
    if (done) way.pulse.moved(time);
  }
  out = {operation->context, completion.outcome, completion.bytes};
  const std::size_t at = operation->way;
  release(operation);
  if (out.outcome == Outcome::lost) blame_card(way);
  if (out.outcome == Outcome::lost && !peer.lost && !peer.dropped)
    lose(peer, at, endpoint_of(way).peer_error(peer.rank));
  if (out.outcome == Outcome::aborted && peer.lost && !peer.dropped) out.outcome = Outcome::lost;
  return true;
}

// Where a card of ours has failed its peers are not to blame.
void RailsEndpoint::blame_card(const Way& way) {
  if (!error_.ok()) return;
  const Status why = endpoint_of(way).error();
  if (!why.ok()) error_ = why.with_prefix("card " + rails_[way.rail].card.name + ": ");
}

void RailsEndpoint::wait(std::chrono::microseconds limit) {
  if (ledger_.size() > 0 || limit <= std::chrono::microseconds(0)) return;
  turns_ = turns_per_look - 1;  // the next poll looks everywhere
  const bool others = std::any_of(busy_.begin() + 1, busy_.end(), [](std::size_t busy) { return busy > 0; });
  if (!others) {
    rails_.front().endpoint->wait(several_.empty() ? limit : std::min<std::chrono::microseconds>(limit, longest_sleep));
    return;
  }
  // What lies on the other cards waits until the next poll, which looks at all of them: it comes soon. The first card
  // is the one that wake() reaches.
  if (rails_.front().endpoint->wait_looks()) {
    nap_ = std::clamp<std::chrono::microseconds>(2 * nap_, shortest_nap, longest_look);
    rails_.front().endpoint->wait(std::min(limit, nap_));
    return;
  }
  do asleep_ = asleep_ + 1 >= rails_.size() ? 0 : asleep_ + 1;
  while (asleep_ != 0 && busy_[asleep_] == 0);
  nap_ = std::clamp<std::chrono::microseconds>(2 * nap_, shortest_nap, longest_nap);
  rails_[asleep_].endpoint->wait(std::min(limit, nap_));
}

}  // namespace fabring::rails

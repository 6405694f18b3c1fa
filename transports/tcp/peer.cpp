#include "transports/tcp/peer.hpp"

#include <algorithm>
#include <limits>

#include "runtime/base/check.hpp"

namespace fabring::tcp {
namespace {

constexpr std::size_t most_queued_sends = 1024;
constexpr std::size_t most_receives = 8192;
// Smaller messages all take the first idle lane, whose state is in the cache; larger ones take turns, so that all
// flows (and the queues and paths of the network behind them) are used.
constexpr std::size_t spread_bytes = 64 * 1024;
constexpr int writes_per_turn = 64;

}  // namespace

Post Peer::post_send(const Outgoing& message) {
  FABRING_CHECK(message.from.size() <= std::numeric_limits<std::uint32_t>::max());
  if (state_ != State::alive || finishing_) {
    ledger_.complete(message.context, outcome());
    return Post::accepted;
  }
  Lane* lane = queue_.empty() ? idle_lane(message.from.size()) : nullptr;
  if (lane == nullptr) {
    if (queue_.size() >= most_queued_sends) return Post::again;
    queue_.push_back(message);
    return Post::accepted;
  }
  lane->begin_send(message);
  // A long message waits for the next turn, as more are likely to be posted until then, which go out with it.
  if (lanes_.size() == 1 && message.from.size() >= spread_bytes) {
    lane->watch.unfinished = true;
  } else {
    push(*lane);
  }
  if (lane->sending()) watch_.heat(*lane);
  return Post::accepted;
}

Post Peer::post_recv(const PostedReceive& receive) {
  if (receives_ended_ && state_ == State::alive && is_quiet(receive.slot)) {
    ledger_.complete(receive.context, Outcome::aborted);
    return Post::accepted;
  }
  if (receives_ended_ && state_ == State::alive) fail(lost("was closed by the peer"));
  if (state_ != State::alive) {
    ledger_.complete(receive.context, outcome());
    return Post::accepted;
  }
  if (receives_.size() >= most_receives) return Post::again;
  const bool free = receives_.insert(receive);
  FABRING_CHECK(free);  // the caller's promise: one receive per slot
  return Post::accepted;
}

bool Peer::wants(std::uint32_t index, std::uint32_t count) const {
  if (state_ != State::alive || std::ranges::find(lane_index_, index) != lane_index_.end()) return false;
  return lane_count_ == 0 || lane_count_ == count;
}

void Peer::attach(std::uint32_t index, std::uint32_t count, std::unique_ptr<net::Stream> stream) {
  if (!wants(index, count)) return;
  lane_count_ = count;
  Lane& lane = *lanes_.emplace_back(std::make_unique<Lane>(*this, std::move(stream), staging_));
  lane_index_.push_back(index);
  watch_.heat(lane);
  take_queued(lane);
  shut_if_finished();
}

void Peer::go_on_without_a_lane() {
  ++lanes_given_up_;
  if (state_ == State::alive && !lanes_.empty()) on_read_ended();
}

bool Peer::step(Lane& lane) {
  lane.watch.unfinished = false;
  bool active = lane.sending() && push(lane);
  const bool wanted = receives_.size() > 0 || lane.receiving() || lane.watch.alarmed;
  if (lane.open() && !lane.read_ended() && wanted) active = pull(lane) || active;
  return active;
}

bool Peer::push(Lane& lane) {
  const std::uint64_t before = ledger_.counters.bytes_sent;
  for (int writes = 0; writes < writes_per_turn; ++writes) {
    const bool large = take_queued(lane);
    const Progress progress = lane.write(ledger_);
    if (progress == Progress::failed) {
      fail(lost(lane.failure()));
      return true;
    }
    if (progress == Progress::more) lane.watch.unfinished = true;
    if (progress != Progress::done) break;
    if (queue_.empty()) {
      shut_if_finished();
      break;
    }
    if (large || queue_.front().from.size() >= spread_bytes || writes + 1 == writes_per_turn) {
      take_queued(lane);  // what waits has a lane that is sending, or nobody would go on with it
      lane.watch.unfinished = true;
      break;
    }
  }
  return ledger_.counters.bytes_sent != before;
}

bool Peer::take_queued(Lane& lane) {
  bool large = false;
  while (!queue_.empty() && lane.takes_more()) {
    const bool this_is_large = queue_.front().from.size() >= spread_bytes;
    if (this_is_large && lanes_.size() > 1 && lane.sending()) break;  // another may carry it meanwhile
    large = large || this_is_large;
    lane.begin_send(queue_.front());
    queue_.pop_front();
  }
  return large;
}

bool Peer::pull(Lane& lane) {
  lane.watch.alarmed = false;
  const std::uint64_t before = ledger_.counters.bytes_received;
  const Progress progress = lane.read(receives_, ledger_);
  if (progress == Progress::failed) {
    fail(lost(lane.failure()));
    return true;
  }
  if (progress == Progress::more) lane.watch.unfinished = true;
  if (progress == Progress::ended) on_read_ended();
  return ledger_.counters.bytes_received != before;
}

Lane* Peer::idle_lane(std::size_t bytes) {
  if (lanes_.size() == 1) return lanes_.front()->sending() ? nullptr : lanes_.front().get();
  const std::size_t start = bytes >= spread_bytes ? next_lane_++ : 0;
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    Lane& lane = *lanes_[(start + i) % lanes_.size()];
    if (!lane.sending()) return &lane;
  }
  return nullptr;
}

std::uint64_t Peer::bytes_in_motion() const {
  std::uint64_t bytes = 0;
  for (const auto& lane : lanes_) bytes += lane->bytes_in_motion();
  return bytes;
}

void Peer::on_read_ended() {
  const bool all = std::ranges::all_of(lanes_, [](const auto& lane) { return lane->read_ended(); });
  // On a lane that is still to come the other side may have sent already: it uses one as soon as it has taken it. The
  // side that dials uses only those that were taken, so there none is missing.
  if (!all || lanes_to_come()) return;
  receives_ended_ = true;
  std::vector<Slot> quiet;
  receives_.for_each([&](const PostedReceive& receive) {
    if (is_quiet(receive.slot)) quiet.push_back(receive.slot);
  });
  for (const Slot slot : quiet) {
    ledger_.complete(receives_.find(slot)->context, Outcome::aborted);
    receives_.erase(slot);
  }
  if (receives_.size() > 0) {
    fail(lost("was closed by the peer while " + std::to_string(receives_.size()) + " receives were waiting"));
  }
}

void Peer::finish_sending() {
  finishing_ = true;
  shut_if_finished();
}

void Peer::shut_if_finished() {
  if (!finishing_ || !queue_.empty()) return;
  for (const auto& lane : lanes_) {
    if (lane->open() && !lane->sending()) lane->finish_sending();
  }
}

void Peer::fail(const Status& why) {
  if (state_ != State::alive) return;
  error_ = why;
  state_ = State::lost;
  end(Outcome::lost);
}

void Peer::drop() {
  if (std::exchange(state_, State::dropped) != State::alive) return;
  if (finishing_) {
    for (const auto& lane : lanes_) lane->drain();
  }
  end(Outcome::aborted);
}

void Peer::end(Outcome outcome) {
  for (const auto& lane : lanes_) {
    lane->abandon_sends(ledger_, outcome);
    lane->stream().close();
  }
  for (const Outgoing& message : queue_) ledger_.complete(message.context, outcome);
  queue_.clear();
  receives_.drain([&](const PostedReceive& receive) { ledger_.complete(receive.context, outcome); });
}

Status Peer::lost(const std::string& what) const {
  ErrorContext context;
  context.rank = rank_;
  return {ErrorCode::peer_lost, "connection to rank " + std::to_string(rank_) + described() + " " + what, context};
}

std::string Peer::described() const {
  if (address_) return " (" + address_->to_string() + ")";
  return lanes_.empty() ? "" : " (" + lanes_.front()->stream().remote().to_string() + ")";
}

}  // namespace fabring::tcp

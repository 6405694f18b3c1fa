#include "runtime/control/tree_plane.hpp"

// What every rank is doing, on request: a question is flooded, each answer takes the one way back to the rank that
// asked. Nothing is sent while nobody asks. Letters take one way likewise.

namespace fabring {

using control::Message;

std::vector<RankNews> TreePlane::ask_states(std::chrono::milliseconds limit) {
  const std::lock_guard one(asking_);
  const SteadyTime deadline = std::chrono::steady_clock::now() + limit;
  std::unique_lock lock(mutex_);
  const control::Question question{self_, ++question_number_};
  states_.assign(static_cast<std::size_t>(config_.world_size), std::nullopt);
  loop_.post([this, question] { flood(Message::question, control::encode(question), -1); });
  const auto count_missing = [&] {
    states_missing_ = 0;
    for (std::size_t rank = 0; rank < states_.size(); ++rank)
      if (static_cast<Rank>(rank) != self_ && left_[rank] == 0 && !states_[rank] &&
          joined_.reaches(self_, static_cast<Rank>(rank)))
        ++states_missing_;
    return states_missing_ == 0;
  };
  changed_.wait_until(lock, deadline, count_missing);
  const SteadyTime now = std::chrono::steady_clock::now();
  std::vector<RankNews> all(states_.size());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    RankNews& news = all[rank];
    news.rank = static_cast<Rank>(rank);
    news.host = identities_[rank].host;
    news.pid = identities_[rank].pid;
    if (states_[rank]) {
      news.presence = RankNews::Presence::answered;
      news.state = std::move(*states_[rank]);
    } else if (left_[rank] != 0) {
      news.presence = RankNews::Presence::left;
    } else if (!joined_.reaches(self_, news.rank)) {
      news.presence = RankNews::Presence::unreachable;
    }
  }
  const auto silent_since = [&](Rank peer, SteadyTime when) {
    all[static_cast<std::size_t>(peer)].silent_ms =
        std::max<std::int64_t>(0, std::chrono::duration_cast<std::chrono::milliseconds>(now - when).count());
  };
  for (const auto& [peer, silent] : silent_) silent_since(peer, silent.since);
  for (const auto& [peer, when] : heard_) silent_since(peer, when);
  states_.clear();
  return all;
}

void TreePlane::on_question(std::function<void(std::uint64_t token)> handler) {
  const std::lock_guard lock(mutex_);
  question_handler_ = std::move(handler);
}

bool TreePlane::asked(const control::Question& question, std::string_view payload, Rank from) {
  flood(Message::question, payload, from);
  std::function<void(std::uint64_t)> handler;
  {
    const std::lock_guard lock(mutex_);
    handler = question_handler_;
  }
  if (handler) handler(std::uint64_t{static_cast<std::uint32_t>(question.asker)} << 32 | question.number);
  return true;
}

void TreePlane::give_state(std::uint64_t token, std::string state) {
  control::Answer answer;
  answer.question = {static_cast<Rank>(token >> 32), static_cast<std::uint32_t>(token)};
  answer.origin = self_;
  answer.state = std::move(state);
  loop_.post([this, answer = std::move(answer)] { answered(answer); });
}

void TreePlane::send_towards(Rank rank, Message type, const std::string& payload) {
  Rank next = -1;
  {
    const std::lock_guard lock(mutex_);
    next = joined_.towards(self_, rank);
  }
  send_over(next, type, payload);
}

void TreePlane::send_over(Rank peer, Message type, const std::string& payload) {
  for (Link& link : links_)
    if (link.peer == peer && link.carries()) link.stream->send(static_cast<std::uint8_t>(type), payload);
}

void TreePlane::send_letter(Rank to, std::string text) {
  if (to < 0 || to >= config_.world_size || to == self_) return;
  loop_.post([this, letter = control::Letter{self_, to, std::move(text)}] { (void)carry(letter, -1); });
}

void TreePlane::on_letter(std::function<void(Rank, std::string_view)> handler) {
  const std::lock_guard lock(mutex_);
  letter_handler_ = std::move(handler);
}

// What this rank does not know the way to, those above it may. A letter never goes back: two ranks that believe
// different things would send it to and fro.
bool TreePlane::carry(const control::Letter& letter, Rank from) {
  if (letter.to < 0 || letter.to >= config_.world_size) return false;
  if (letter.to != self_) {
    Rank next = -1;
    {
      const std::lock_guard lock(mutex_);
      next = joined_.towards(self_, letter.to);
      if (next < 0 || next == from) next = joined_.parent(self_);
    }
    if (next >= 0 && next != from) send_over(next, Message::letter, control::encode(letter));
    return true;
  }
  std::function<void(Rank, std::string_view)> handler;
  {
    const std::lock_guard lock(mutex_);
    handler = letter_handler_;
  }
  if (handler) handler(letter.from, letter.text);
  return true;
}

bool TreePlane::answered(control::Answer answer) {
  const Rank asker = answer.question.asker;
  if (asker < 0 || asker >= config_.world_size) return false;
  if (asker != self_) {
    send_towards(asker, Message::answer, control::encode(answer));
    return true;
  }
  const std::lock_guard lock(mutex_);
  if (answer.question.number != question_number_ || states_.empty()) return true;  // too late
  auto& state = states_[static_cast<std::size_t>(answer.origin)];
  if (!state && states_missing_ > 0) --states_missing_;
  state = std::move(answer.state);
  if (states_missing_ == 0) changed_.notify_all();  // not for each: whoever waits looks at all of them
  return true;
}

}  // namespace fabring

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/rank_list.hpp"
#include "runtime/control/tree_plane.hpp"

// Ranks of which nothing is heard. Their neighbours in the tree notice, and tell everybody else: whoever waits should
// read in its own log for whom. Each rank hears of another's silence from one neighbour of it, as there is but one way.

namespace fabring {

using control::Message;
using namespace std::chrono_literals;

void TreePlane::watch_silence(Link& link, SteadyTime now) {
  const auto silent = now - link.last_heard;
  if (silent < std::min(options_.note_silence_after, config_.silence_timeout)) return;
  bool left = false;
  {
    const std::lock_guard lock(mutex_);
    left = left_[static_cast<std::size_t>(link.peer)] != 0;
  }
  if (left) {
    if (silent < config_.silence_timeout) return;
    // Nothing is wrong with who has left, but nothing passes through it either: those on both sides join again.
    link.stream->close();
    return mark_gone(link.peer, link.peer);
  }
  if (silent >= config_.silence_timeout) {
    // It may hear without being heard, and must not take this for the end of our process.
    link.stream->close_with(FrameStream::encode(static_cast<std::uint8_t>(Message::failure),
                                                control::encode(given_up_in_silence(link.peer))));
    return lost_in_silence(link.peer);
  }
  if (link.silence_noted) return;
  link.silence_noted = true;
  tell_silence(link.peer, silent);
}

Failure TreePlane::given_up_in_silence(Rank rank) const {
  return {ErrorCode::peer_lost, rank, self_, 0,
          fmt::format("{} has been silent for {} (FABRING_SILENCE_TIMEOUT): its process is stopped, or its host "
                      "cannot be reached",
                      who(rank), duration_text(config_.silence_timeout))};
}

void TreePlane::lost_in_silence(Rank rank) {
  learn(given_up_in_silence(rank), rank);
  mark_gone(rank, rank);
}

void TreePlane::heard_again(Link& link) {
  link.silence_noted = false;
  tell_silence(link.peer, 0ns);
}

void TreePlane::tell_silence(Rank rank, std::chrono::nanoseconds silent) {
  control::Silence silence{self_, rank, 0};
  silence.ms = static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::milliseconds>(silent).count());
  note_silence(silence);
  flood(Message::silence, control::encode(silence), rank);
}

bool TreePlane::silence_told(const control::Silence& silence, std::string_view payload, Rank from) {
  if (silence.rank == self_) return true;  // a late one, and of no use to those behind this rank
  note_silence(silence);
  flood(Message::silence, payload, from);
  return true;
}

// Parts of the tree that join again tell each other of all silences: of one that this rank still knows, or that has
// ended in a loss, whoever reads the log was told.
void TreePlane::note_silence(const control::Silence& silence) {
  std::string name;
  {
    const std::lock_guard lock(mutex_);
    const bool known = silent_.erase(silence.rank) > 0;
    if (silence.ms > 0)
      silent_[silence.rank] = {std::chrono::steady_clock::now() - std::chrono::milliseconds(silence.ms),
                               silence.observer};
    if (known == (silence.ms > 0) || given_up(silence.rank)) return;
    name = who_locked(silence.rank);
  }
  // In a large world this would be as many lines as there are ranks.
  const bool to_be_seen = silence.observer == self_ || config_.world_size <= options_.most_flooded_world;
  const std::string text =
      silence.ms == 0
          ? fmt::format("{} is back", name)
          : fmt::format(
                "{} has been silent for {}: its process is stopped, or its host cannot be reached; it is given "
                "up after {} (FABRING_SILENCE_TIMEOUT)",
                name, duration_text(std::chrono::milliseconds(silence.ms)), duration_text(config_.silence_timeout));
  log_.write(to_be_seen ? LogLevel::warning : LogLevel::info, text);
}

// That a rank is back may have been said while there was no way here. Who is on the other side of a new link tells
// again of whom it has not heard.
void TreePlane::forget_silences_beyond(const Link& link) {
  std::vector<control::Silence> over;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [rank, silent] : silent_) {
      if (silent.observer == self_) continue;
      if (!joined_.reaches(self_, silent.observer) || joined_.towards(self_, silent.observer) == link.peer)
        over.push_back({silent.observer, rank, 0});
    }
    for (const control::Silence& silence : over) silent_.erase(silence.rank);
  }
  for (const control::Silence& silence : over) flood(Message::silence, control::encode(silence), link.peer);
}

// It cannot say any more that they are back; if they are not, their next neighbours will notice.
void TreePlane::forget_silences_told_by(Rank observer) {
  const std::lock_guard lock(mutex_);
  std::erase_if(silent_, [&](const auto& entry) { return entry.second.observer == observer; });
}

std::chrono::milliseconds TreePlane::silent_for(Rank rank) const {
  const std::lock_guard lock(mutex_);
  const auto found = silent_.find(rank);
  if (found == silent_.end()) return 0ms;
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - found->second.since);
}

}  // namespace fabring

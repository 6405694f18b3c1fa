#include "runtime/engine/members/settling.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/engine/execution/execution.hpp"
#include "runtime/engine/members/communicator_core.hpp"

namespace fabring {
namespace {

// How long nothing of a failed operation's memory may come back before who holds it is disconnected. Who lives is asked
// for it (EngineCore::withdraw), and may be busy, or without a core: ranks that live must not lose each other by that.
constexpr auto settle_with_the_living = std::chrono::milliseconds(2500);
constexpr auto settle_with_the_lost = std::chrono::milliseconds(100);

std::size_t outstanding(const std::vector<std::shared_ptr<Execution>>& failed) {
  std::size_t blocks = 0;
  for (const auto& execution : failed) blocks += execution->outstanding();
  return blocks;
}

}  // namespace

Settling::Settling(Peers peers, Log log) : peers_(std::move(peers)), log_(std::move(log)) {}

void Settling::begin(const std::vector<std::shared_ptr<Execution>>& failed, Time now) {
  if (failed.empty()) return;
  communicators_.push_back({failed.front()->communicator(), now, outstanding(failed), in_motion(failed)});
}

// By what is known of them now: who was silent when it failed may have been heard again.
Time Settling::time_to_settle(const std::vector<std::shared_ptr<Execution>>& failed) const {
  for (const auto& execution : failed)
    for (const Rank peer : execution->peers_outstanding())
      if (!peers_.is_away(peer)) return settle_with_the_living;
  return settle_with_the_lost;
}

// A long message on a slow link, or behind an outage, comes back as a whole and late.
std::uint64_t Settling::in_motion(const std::vector<std::shared_ptr<Execution>>& failed) const {
  std::uint64_t bytes = 0;
  for (const auto& execution : failed)
    for (const Rank peer : execution->peers_outstanding()) bytes += peers_.bytes_in_motion(peer);
  return bytes;
}

// It ends neither by an abort nor when its time is up.
void Settling::say_what_does_not_settle(const std::vector<std::shared_ptr<Execution>>& failed, bool& said) const {
  for (const auto& execution : failed) {
    if (said || !execution->failed() || execution->busy_device() < 0) continue;
    said = true;
    log_.warning(fmt::format(
        "{} on '{}' has failed, but cannot end before GPU {} has run what was posted to it, which reads or writes its "
        "buffers: something else occupies that GPU",
        execution->call().describe(), execution->communicator()->label, execution->busy_device()));
  }
}

void Settling::look(Time now) {
  for (std::size_t i = 0; i < communicators_.size();) {
    Communicator& one = communicators_[i];
    const auto communicator = one.core.lock();
    const auto running = communicator ? communicator->running() : std::vector<std::shared_ptr<Execution>>();
    if (running.empty()) {
      communicators_.erase(communicators_.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    const std::size_t left = outstanding(running);
    const std::uint64_t moving = in_motion(running);
    if (left < one.outstanding || moving != one.in_motion) one.since = now;  // at it
    one.outstanding = std::min(one.outstanding, left);
    one.in_motion = moving;
    const Time waited = now - one.since;
    if (waited >= Time(settle_with_the_living)) say_what_does_not_settle(running, one.said);
    if (waited >= time_to_settle(running)) {
      for (const auto& execution : running) {
        if (!execution->failed()) continue;
        for (const Rank peer : execution->peers_outstanding()) peers_.give_up(peer);
      }
    }
    ++i;
  }
}

}  // namespace fabring

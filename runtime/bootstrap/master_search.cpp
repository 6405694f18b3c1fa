#include "runtime/bootstrap/master_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/base/rank_list.hpp"
#include "runtime/bootstrap/master_address.hpp"
#include "runtime/bootstrap/meeting_wire.hpp"

namespace fabring {
namespace {

using namespace std::chrono_literals;
using SteadyTime = std::chrono::steady_clock::time_point;

constexpr auto first_search_pause = 2ms;
constexpr auto longest_pause = 200ms;
constexpr auto pause_after_stranger = 250ms;  // somebody else's service will not turn into ours soon
constexpr auto connect_limit = 5s;
constexpr auto resolve_again_after = 1s;

struct Candidate {
  net::SocketAddress address;
  std::chrono::milliseconds pause = first_search_pause;
  SteadyTime next;
  bool busy = false;
  std::shared_ptr<void> connecting;
  std::shared_ptr<void> greeting;
  std::string last;  // what happened at the last attempt
};

class Search {
 public:
  Search(net::Loop& loop, const MasterSearch& terms, const Log& log) : loop_(loop), terms_(terms), log_(log) {}

  Result<FoundMaster> run() {
    // Of this search: who was let go by rank 0 searches again, and may have started long ago.
    SteadyTime next_note = std::chrono::steady_clock::now() + terms_.note_interval;
    SteadyTime next_resolve = terms_.started;
    auto resolve_pause = std::chrono::milliseconds(50);
    for (;;) {
      const auto now = std::chrono::steady_clock::now();
      if (now >= terms_.deadline) return give_up();
      if (now >= next_note) {
        log_.warning(fmt::format("rank {} is waiting for rank 0: {}", terms_.greeting.self, situation()));
        next_note = now + terms_.note_interval;
      }
      if (now >= next_resolve) {
        resolve();
        next_resolve = std::chrono::steady_clock::now() + (candidates_.empty() ? resolve_pause : resolve_again_after);
        resolve_pause = std::min<std::chrono::milliseconds>(resolve_pause * 2, resolve_again_after);
        if (is_numeric_address(terms_.host)) next_resolve = SteadyTime::max();
      }
      SteadyTime wake = std::min({terms_.deadline, next_note, next_resolve});
      for (auto& candidate : candidates_) {
        if (!candidate->busy && candidate->next <= std::chrono::steady_clock::now()) attempt(*candidate);
        if (!candidate->busy) wake = std::min(wake, candidate->next);
      }
      loop_.run_for(std::max<std::chrono::nanoseconds>(wake - std::chrono::steady_clock::now(), 0ns));
      if (found_) return FoundMaster{std::move(found_->stream), addresses()};
      if (!refused_.ok()) return refused_;
    }
  }

 private:
  void resolve() {
    auto addresses = resolve_until(terms_.host, terms_.port, terms_.deadline);
    if (!addresses) {
      resolve_error_ = addresses.error().message();
      return;
    }
    resolve_error_.clear();
    // A pod that was restarted has another address: what is no longer in the answer is no longer tried.
    std::erase_if(candidates_, [&](const auto& candidate) {
      return std::none_of(addresses->begin(), addresses->end(),
                          [&](const auto& address) { return address.host == candidate->address.host; });
    });
    for (const auto& address : *addresses) {
      for (std::uint16_t port : candidate_ports(terms_.port, terms_.shared_port)) {
        const net::SocketAddress full{address.host, port};
        const bool known = std::any_of(candidates_.begin(), candidates_.end(),
                                       [&](const auto& candidate) { return candidate->address == full; });
        if (known) continue;
        candidates_.push_back(std::make_unique<Candidate>());
        candidates_.back()->address = full;
      }
    }
  }

  void attempt(Candidate& candidate) {
    candidate.busy = true;
    candidate.greeting.reset();
    candidate.connecting =
        net::connect(loop_, candidate.address, std::min<std::chrono::nanoseconds>(connect_limit, left()),
                     [this, &candidate](Result<std::unique_ptr<net::Stream>> connected) {
                       if (!connected) return try_again(candidate, connected.error().message(), false);
                       greet(candidate, std::move(*connected));
                     });
  }

  void greet(Candidate& candidate, std::unique_ptr<net::Stream> stream) {
    HandshakeOptions options = terms_.greeting;
    options.initiator = true;
    options.limit = std::min(options.limit, left());
    candidate.greeting = handshake(loop_, std::move(stream), options, [this, &candidate](HandshakeResult result) {
      if (result.stream) {
        if (!found_) found_ = std::move(result);
        return;
      }
      if (result.failure == HandshakeFailure::refused) {
        if (!may_be_anothers(result.refusal))
          refused_ = result.status;
        else if (result.refusal == Refusal::version)
          other_version_ = result.status;
      }
      try_again(candidate, result.status.message(),
                result.failure == HandshakeFailure::refused || result.status.code() != ErrorCode::unavailable ||
                    terms_.shared_port);
    });
  }

  // Any of the ports that several jobs try may belong to another job, at whatever door and of whatever version. Ours is
  // at one of the others, or will be.
  bool may_be_anothers(Refusal refusal) const {
    return terms_.shared_port &&
           (refusal == Refusal::job || refusal == Refusal::purpose || refusal == Refusal::version);
  }

  // A connection that breaks during the handshake may be rank 0 on its way up, so that is retried as quickly as a
  // refusal unless the port may be somebody else's.
  void try_again(Candidate& candidate, const std::string& why, bool stranger) {
    candidate.last = why;
    candidate.busy = false;
    candidate.next = std::chrono::steady_clock::now() + (stranger ? pause_after_stranger : candidate.pause);
    candidate.pause = std::min<std::chrono::milliseconds>(candidate.pause * 3 / 2 + 1ms, longest_pause);
  }

  std::vector<net::SocketAddress> addresses() const {
    std::vector<net::SocketAddress> all;
    for (const auto& candidate : candidates_) all.push_back(candidate->address);
    return all;
  }

  std::chrono::nanoseconds left() const {
    return std::max<std::chrono::nanoseconds>(terms_.deadline - std::chrono::steady_clock::now(), 1ms);
  }

  std::string place() const {
    return fmt::format("{} {} port {}{}", terms_.named_by, terms_.host, terms_.port,
                       terms_.shared_port ? fmt::format(" to {}", candidate_ports(terms_.port, true).back()) : "");
  }

  bool only_loopback() const {
    return !candidates_.empty() && std::all_of(candidates_.begin(), candidates_.end(),
                                               [](const auto& candidate) { return candidate->address.is_loopback(); });
  }

  std::string situation() const {
    const auto waited = duration_text(std::chrono::steady_clock::now() - terms_.started);
    if (candidates_.empty())
      return fmt::format("{} '{}' did not resolve for {} ({})", terms_.named_by, terms_.host, waited, resolve_error_);
    std::string last = other_version_.message();
    for (const auto& candidate : candidates_)
      if (last.empty()) last = candidate->last;
    std::string text = fmt::format("no rank 0 of this job answered at {} for {}", place(), waited);
    if (!last.empty()) text += fmt::format(" (last: {})", last);
    return text;
  }

  Status give_up() const {
    std::string text = fmt::format("rank {} did not find rank 0: {}", terms_.greeting.self, situation());
    if (candidates_.empty())
      return Status(ErrorCode::unavailable,
                    text + "; check the name, or set FABRING_MASTER_ADDR to the numeric address of rank 0's host");
    if (!other_version_.ok()) return Status(other_version_.code(), text, meeting::about(0));
    text += "; is rank 0 running, and does a firewall let this port through?";
    if (only_loopback())
      text += fmt::format(
          " {} means this rank's own host: if rank 0 is on another host, set FABRING_MASTER_ADDR to an "
          "address of that host",
          candidates_.front()->address.host);
    return Status(ErrorCode::timeout, text, meeting::about(0));
  }

  net::Loop& loop_;
  const MasterSearch& terms_;
  const Log& log_;
  std::vector<std::unique_ptr<Candidate>> candidates_;
  std::string resolve_error_ = "no answer yet";
  std::optional<HandshakeResult> found_;
  Status refused_;
  Status other_version_;  // the last that was refused for it at a port that may be another job's
};

}  // namespace

Result<FoundMaster> find_master(net::Loop& loop, const MasterSearch& search, const Log& log) {
  return Search(loop, search, log).run();
}

}  // namespace fabring

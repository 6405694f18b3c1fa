#include "runtime/bootstrap/store_bootstrap.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <thread>
#include <utility>

#include "runtime/base/digest.hpp"
#include "runtime/base/net/net.hpp"
#include "runtime/base/rank_list.hpp"
#include "runtime/bootstrap/common_address.hpp"
#include "runtime/bootstrap/host_beacon.hpp"
#include "runtime/bootstrap/master_address.hpp"
#include "runtime/bootstrap/meeting_wire.hpp"
#include "topology/host_identity.hpp"
#include "topology/interfaces.hpp"

namespace fabring {
namespace {

using namespace std::chrono_literals;
using SteadyTime = std::chrono::steady_clock::time_point;

constexpr std::size_t most_reason_bytes = 900;  // of an error, so that it fits a value
constexpr auto time_to_resolve = 2s;
constexpr auto time_for_bad_news = 2s;  // rank 0 gives up at the deadline, and what it publishes needs to arrive

using meeting::StoreMeeting;

/// What is between two looks into the store. It serves all ranks, so the more of them look, the more seldom each does.
struct Pause {
  Pause(std::chrono::nanoseconds least, std::chrono::nanoseconds most, int looking)
      : shortest(std::max<std::chrono::nanoseconds>(least, looking * 50us)),
        longest(std::max<std::chrono::nanoseconds>(most, looking * 100us)) {}
  std::chrono::nanoseconds shortest, longest;
};

/// The looks for one key, which so many ranks look for. Ever more seldom: that adds an eighth to the time that it
/// takes.
struct Looks {
  Looks(SteadyTime started, int looking) : since(started), pause(1ms, 250ms, looking) {}
  SteadyTime since;
  Pause pause;
  SteadyTime next = {};  // not before then
};

// Looks at it again and again: of a wait in a store that ends c10d itself warns. `failure` is asked as well, each time.
Result<std::string> look_until(Store& store, const std::string& key, Looks& looks, SteadyTime until,
                               const std::function<Status()>& failure = {}) {
  for (;;) {
    SteadyTime now = std::chrono::steady_clock::now();
    if (now >= looks.next) {
      auto value = store.get(key, 0ns);
      if (value || value.error().code() != ErrorCode::timeout) return value;
      now = std::chrono::steady_clock::now();
      looks.next = now + std::clamp((now - looks.since) / 8, looks.pause.shortest, looks.pause.longest);
    }
    if (failure) FABRING_TRY(failure());
    if (now >= until) return Status(ErrorCode::timeout, fmt::format("nobody has published '{}' in the store", key));
    std::this_thread::sleep_for(std::min(looks.next, until) - now);
  }
}

std::string join_key(Rank rank) { return fmt::format("join/{}", rank); }

/// Where the first rank whose start fails once it has said that it is there says so. Of two at once one may not be
/// heard, nor the first, where the one after it cannot read what is there.
constexpr const char* failed_key = "failed";

Status publish_failure(Store& store, Rank self, const Status& why) {
  if (store.get(failed_key, 0ns)) return {};  // what cannot be read may still be written
  const std::string text =
      fmt::format("rank {} (host {}, pid {}) gave up: {}", self, host_name(), ::getpid(), why.message());
  return store.put(failed_key,
                   meeting::encode(Status(why.code(), text.substr(0, most_reason_bytes), meeting::blamed(why, self))));
}

/// What a rank has published there, or why the store cannot say; ok: nothing.
Status failure_in(const Result<std::string>& told) {
  if (!told) return told.error().code() == ErrorCode::timeout ? Status() : told.error();
  if (const auto status = meeting::decode_status(*told)) return *status;
  return Status(ErrorCode::mismatch,
                "what the store has for a rank that failed cannot be read: another version, or another program that "
                "uses the same keys");
}

Status published_failure(Store& store) { return failure_in(store.get(failed_key, 0ns)); }

class StoreBootstrap final : public Bootstrap {
 public:
  StoreBootstrap(Store& store, const Config& config, StoreMeeting meeting, std::string address)
      : store_(store),
        self_(config.rank),
        ranks_(config.world_size),
        meeting_(std::move(meeting)),
        address_(std::move(address)) {}
  ~StoreBootstrap() override {
    if (!finished_) give_up(meeting::failed_start());
  }
  Status put(const std::string& key, const std::string& value) override { return store_.put(key, value); }
  Result<std::string> get(const std::string& key, SteadyTime deadline) override {
    if (std::exchange(awaited_, key) != key) looks_ = {std::chrono::steady_clock::now(), ranks_};
    auto value = look_until(store_, key, looks_, deadline, [this] { return failure(); });
    if (value || value.error().code() != ErrorCode::timeout || !failure_.ok()) return value;
    return Status(ErrorCode::timeout, fmt::format("no rank has published '{}' in the store in time", key));
  }
  Status failure() override {
    const SteadyTime now = std::chrono::steady_clock::now();
    if (!failure_.ok() || now < next_look_) return failure_;
    const auto told = store_.get(failed_key, 0ns);
    all_know_ = told.has_value();
    failure_ = failure_in(told);
    next_look_ = std::chrono::steady_clock::now() + pause_;
    pause_ = std::min(2 * pause_, bounds_.longest);
    return failure_;
  }
  void give_up(const Status& why) override {
    finished_ = true;
    if (!all_know_) (void)publish_failure(store_, self_, why);
  }
  void finish() override { finished_ = true; }
  std::uint64_t job_nonce() const override { return meeting_.job_nonce; }
  std::string local_address() const override { return address_; }
  bool all_on_this_host() const override { return meeting_.all_on_this_host; }
  bool outlives_ranks() const override { return true; }
  std::uint64_t strangers() const override { return 0; }

 private:
  Store& store_;
  const Rank self_;
  const int ranks_;
  const StoreMeeting meeting_;
  const std::string address_;
  bool finished_ = false;
  Status failure_;
  bool all_know_ = false;    // of it, as it is in the store
  std::string awaited_;      // the key that get() is asked for, in several turns
  Looks looks_{{}, ranks_};  // for it
  const Pause bounds_{50ms, 1000ms, ranks_};
  std::chrono::nanoseconds pause_ = bounds_.shortest;  // between looks for a rank that failed
  SteadyTime next_look_;
};

struct Joins {
  bool one_host = true;  ///< all ranks share the first one's host
  /// Of ranks elsewhere that resolve the master's name to addresses of this host: these addresses.
  std::vector<WayToMaster> ways;
};

/// What a rank waits for: until when, and how often it says so.
struct Wait {
  const Log& log;
  SteadyTime started, deadline;
  std::chrono::milliseconds note_interval;
  SteadyTime next_note = started + note_interval;

  void note(const std::string& awaited) {
    const SteadyTime now = std::chrono::steady_clock::now();
    if (now < next_note) return;
    next_note = now + note_interval;
    if (now < deadline)
      log.warning(fmt::format("still waiting for {}, for {} now", awaited, duration_text(now - started)));
  }
};

/// Adds what a rank has said of itself.
Status add_join(Joins& joins, Rank rank, const std::string& value, const std::string& fingerprint) {
  const auto join = meeting::decode_store_join(value);
  if (!join)
    return Status(ErrorCode::mismatch,
                  fmt::format("what the store has for rank {} cannot be read: another version, or another program "
                              "that uses the same keys",
                              rank));
  if (join->self.fingerprint == fingerprint && (join->beacon.empty() || !is_beacon_elsewhere(join->beacon))) return {};
  joins.one_host = false;
  std::vector<std::string> ours = join->self.master_addresses;
  std::erase_if(ours, [](const std::string& address) { return !is_local_address({address, 0}); });
  if (!ours.empty()) joins.ways.push_back({ours.front(), ours});
  return {};
}

/// Those of the others. The error names those that did not come, or is that of one that has given up, before it came or
/// after. The first that is missing is waited for; at the others it only looks, so that a note names them all.
Result<Joins> read_joins(const Config& config, Store& store, const std::string& fingerprint, Wait wait) {
  Joins joins;
  Status gave_up;  // of a rank whose time was over it is a timeout, too
  const auto heard = [&] { return gave_up = published_failure(store); };
  std::vector<Rank> missing;
  for (Rank rank = 1; rank < config.world_size; ++rank) missing.push_back(rank);
  for (bool in_time = true; !missing.empty() && in_time;) {
    in_time = std::chrono::steady_clock::now() < wait.deadline;
    const SteadyTime until = std::min(wait.next_note, wait.deadline);
    std::vector<Rank> absent;
    for (const Rank rank : missing) {
      Looks looks(wait.started, 1);
      auto joined =
          absent.empty() ? look_until(store, join_key(rank), looks, until, heard) : store.get(join_key(rank), 0ns);
      if (!joined && (!gave_up.ok() || joined.error().code() != ErrorCode::timeout)) return joined.error();
      if (joined)
        FABRING_TRY(add_join(joins, rank, *joined, fingerprint));
      else
        absent.push_back(rank);
    }
    missing = std::move(absent);
    if (!missing.empty())
      wait.note(fmt::format("{} of {} in the store of the framework", rank_list(missing), config.world_size));
  }
  if (missing.empty()) return joins;
  ErrorContext context;
  if (missing.size() == 1) context.rank = missing.front();
  return Status(ErrorCode::timeout,
                fmt::format("{} of {} did not come within {} (FABRING_RENDEZVOUS_TIMEOUT); look at "
                            "{} output",
                            rank_list(missing), config.world_size, duration_text(config.rendezvous_timeout),
                            missing.size() == 1 ? "its" : "their"),
                context);
}

/// What rank 0 publishes. Who keeps it from that is not known here: the error is about no rank.
Result<std::string> read_meeting(const Config& config, Store& store, Wait wait) {
  Looks looks(wait.started, config.world_size);
  const SteadyTime end = wait.deadline + time_for_bad_news;
  for (;;) {
    const bool in_time = std::chrono::steady_clock::now() < end;
    if (!in_time) looks.next = {};  // the last look
    auto value = look_until(store, "meeting", looks, std::min(wait.next_note, end));
    if (value || value.error().code() != ErrorCode::timeout) return value;
    if (!in_time) break;
    wait.note(
        fmt::format("rank 0 of {} to say in the store of the framework that all have come: its log says who has "
                    "not, or it has not come itself",
                    config.world_size));
  }
  return Status(ErrorCode::timeout,
                fmt::format("rank 0 of {} did not say in the store of the framework within {} "
                            "(FABRING_RENDEZVOUS_TIMEOUT) that all have come: its log says who has not, or it has not "
                            "come itself",
                            config.world_size, duration_text(config.rendezvous_timeout)));
}

/// What master_addr names, as this host resolves it; none if it is empty or does not resolve soon.
std::vector<net::SocketAddress> named_addresses(const Config& config, SteadyTime deadline) {
  if (config.master_addr.empty()) return {};
  const auto limit = std::min(deadline, std::chrono::steady_clock::now() + time_to_resolve);
  auto addresses = resolve_until(config.master_addr, 0, limit);
  if (!addresses) return {};
  return std::move(*addresses);
}

/// The address of this host that master_addr names; empty if it names none. What ranks of other hosts take it for comes
/// first: Debian and Ubuntu tell a host that its own name is 127.0.1.1.
std::string own_address(const Config& config, const Joins& joins, SteadyTime deadline) {
  if (std::string told = common_address(joins.ways); !told.empty()) return told;
  for (const net::SocketAddress& address : named_addresses(config, deadline))
    if (is_local_address(address)) return address.host;
  return {};
}

Result<StoreMeeting> hold_meeting(const Config& config, Store& store, const std::string& fingerprint,
                                  const Wait& wait) {
  StoreMeeting meeting;
  meeting.job_nonce = random_nonce();
  auto joins = read_joins(config, store, fingerprint, wait);
  if (!joins) return joins.error();
  meeting.all_on_this_host = joins->one_host;
  auto addresses = interface_addresses();
  if (!addresses) return addresses.error();
  auto choice =
      choose_interface(*addresses, {config.interface, joins->one_host, own_address(config, *joins, wait.deadline)});
  if (!choice) return choice.error();
  meeting.master = choice->chosen.address;
  FABRING_TRY(published_failure(store));  // who came early may have given up before the last one came
  return meeting;
}

struct Joined {
  StoreMeeting meeting;
  std::string address;  ///< of this rank
};

/// Rank 0's word that there is no meeting: what it has heard of another rank, or what is wrong here.
Status publish_failed_meeting(Store& store, const Status& why, const std::string& who) {
  const Status shortened(why.code(), (who + why.message()).substr(0, most_reason_bytes), why.context());
  return store.put("meeting", meeting::encode_failed_meeting(shortened));
}

/// Has the store what another process says of this rank? `said`: this one has.
Status check_alone(Store& store, Rank self, const std::string& own, bool said) {
  const auto there = store.get(join_key(self), 0ns);
  if (!there) return there.error().code() == ErrorCode::timeout ? Status() : there.error();
  if (said && *there == own) return {};
  const auto who = [](const std::string& value) {
    const auto join = meeting::decode_store_join(value);
    return join ? fmt::format("(host {}, pid {})", join->self.host, join->self.pid) : "(it cannot be read who)";
  };
  ErrorContext context;
  context.rank = self;
  return {ErrorCode::invalid_argument,
          fmt::format("rank {} came twice: {} and {}; every process needs its own FABRING_RANK, and every start keys "
                      "of its own in the store",
                      self, who(*there), who(own)),
          context};
}

/// Says there that this rank has come. Of two processes with its number the later one finds the
/// other, before or after it has said so itself, and then all hear of it; unless both look and write by turns.
Status say_here(Store& store, Rank self, const meeting::StoreJoin& join) {
  const std::string own = meeting::encode(join);
  Status alone = check_alone(store, self, own, false);
  if (alone.ok()) {
    FABRING_TRY(store.put(join_key(self), own));
    alone = check_alone(store, self, own, true);
  }
  if (!alone.ok()) (void)publish_failure(store, self, alone);
  return alone;
}

/// The part of a rank other than 0 once it has said that it is there: if it gives up, the others hear so, but for what
/// rank 0 has told them itself.
Result<Joined> join_meeting(const Config& config, Store& store, const Wait& wait) {
  const auto give_up = [&](const Status& why) {
    (void)publish_failure(store, config.rank, why);
    return why;
  };
  const auto value = read_meeting(config, store, wait);
  if (!value) return give_up(value.error());
  auto meeting = meeting::decode_store_meeting(*value);
  if (!meeting) return meeting::is_failed_meeting(*value) ? meeting.error() : give_up(meeting.error());
  std::string address = source_address_towards(meeting->master);
  if (address.empty())
    return give_up(Status(
        ErrorCode::unavailable,
        fmt::format("this host ({}) has no route to {}, the address of rank 0; set FABRING_INTERFACE on rank 0 to an "
                    "interface that all hosts reach",
                    host_name(), meeting->master)));
  return Joined{std::move(*meeting), std::move(address)};
}

}  // namespace

Status decline_meeting(Store& store, Rank self, const Status& why) {
  if (self != 0) return publish_failure(store, self, why);
  const Status own(why.code(), why.message(), meeting::blamed(why, self, host_name()));
  return publish_failed_meeting(store, own, fmt::format("rank 0 (host {}, pid {}) gave up: ", host_name(), ::getpid()));
}

Result<std::unique_ptr<Bootstrap>> meet_by_store(const Config& config, Store& store, const Log& log,
                                                 std::chrono::milliseconds note_interval) {
  const SteadyTime started = std::chrono::steady_clock::now();
  const Wait wait{log, started, started + config.rendezvous_timeout, note_interval};
  const std::string fingerprint = host_fingerprint();
  const HostBeacon beacon(config.rank);  // until rank 0 has said that all have come
  meeting::StoreJoin here{{fingerprint, host_name(), static_cast<std::uint32_t>(::getpid()), {}}, beacon.name()};
  if (config.rank == 0) {
    // Nobody waits for that, but another rank 0 would find it. Who is alone has nobody to tell them apart for.
    const Status alone = config.world_size > 1 ? say_here(store, 0, here) : Status();
    auto meeting = alone.ok() ? hold_meeting(config, store, fingerprint, wait) : alone;
    if (!meeting) {
      (void)publish_failed_meeting(store, meeting.error(), fmt::format("rank 0 (host {}): ", host_name()));
      return meeting.error();
    }
    FABRING_TRY(store.put("meeting", meeting::encode(*meeting)));
    std::string address = meeting->master;
    return std::unique_ptr<Bootstrap>(
        std::make_unique<StoreBootstrap>(store, config, std::move(*meeting), std::move(address)));
  }
  here.self.master_addresses = reachable_elsewhere(named_addresses(config, wait.deadline));
  FABRING_TRY(say_here(store, config.rank, here));
  // From here on rank 0 takes this rank for one that is there.
  auto joined = join_meeting(config, store, wait);
  if (!joined) return joined.error();
  return std::unique_ptr<Bootstrap>(
      std::make_unique<StoreBootstrap>(store, config, std::move(joined->meeting), std::move(joined->address)));
}

}  // namespace fabring

#include "runtime/bootstrap/store_bootstrap.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/base/digest.hpp"
#include "runtime/base/net/net.hpp"
#include "runtime/base/rank_list.hpp"
#include "runtime/bootstrap/common_address.hpp"
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

std::chrono::nanoseconds time_left(SteadyTime deadline) {
  return std::max<std::chrono::nanoseconds>(deadline - std::chrono::steady_clock::now(), 0ns);
}

std::string join_key(Rank rank) { return fmt::format("join/{}", rank); }

class StoreBootstrap final : public Bootstrap {
 public:
  StoreBootstrap(Store& store, StoreMeeting meeting, std::string address)
      : store_(store), meeting_(std::move(meeting)), address_(std::move(address)) {}
  Status put(const std::string& key, const std::string& value) override { return store_.put(key, value); }
  Result<std::string> get(const std::string& key, SteadyTime deadline) override {
    auto value = store_.get(key, time_left(deadline));
    if (value || value.error().code() != ErrorCode::timeout) return value;
    return Status(ErrorCode::timeout, fmt::format("no rank has published '{}' in the store in time", key));
  }
  std::uint64_t job_nonce() const override { return meeting_.job_nonce; }
  std::string local_address() const override { return address_; }
  bool all_on_this_host() const override { return meeting_.all_on_this_host; }
  std::uint64_t strangers() const override { return 0; }

 private:
  Store& store_;
  const StoreMeeting meeting_;
  const std::string address_;
};

struct Joins {
  bool one_host = true;  ///< all ranks share the first one's host
  /// Of ranks elsewhere that resolve the master's name to addresses of this host: these addresses.
  std::vector<WayToMaster> ways;
};

/// Those of the others. The error names those that did not come.
Result<Joins> read_joins(const Config& config, Store& store, const std::string& fingerprint, SteadyTime deadline) {
  Joins joins;
  std::vector<Rank> missing;
  for (Rank rank = 1; rank < config.world_size; ++rank) {
    auto joined = store.get(join_key(rank), missing.empty() ? time_left(deadline) : 0ns);
    if (!joined && joined.error().code() != ErrorCode::timeout) return joined.error();
    if (!joined) {
      missing.push_back(rank);
      continue;
    }
    const auto join = meeting::decode_join(*joined);
    if (!join)
      return Status(ErrorCode::mismatch,
                    fmt::format("what the store has for rank {} cannot be read: another version, or another program "
                                "that uses the same keys",
                                rank));
    if (join->fingerprint == fingerprint) continue;
    joins.one_host = false;
    std::vector<std::string> ours = join->master_addresses;
    std::erase_if(ours, [](const std::string& address) { return !is_local_address({address, 0}); });
    if (!ours.empty()) joins.ways.push_back({ours.front(), ours});
  }
  if (missing.empty()) return joins;
  return Status(ErrorCode::timeout,
                fmt::format("{} of {} did not come within {} (FABRING_RENDEZVOUS_TIMEOUT); look at "
                            "{} output",
                            rank_list(missing), config.world_size, duration_text(config.rendezvous_timeout),
                            missing.size() == 1 ? "its" : "their"));
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
                                  SteadyTime deadline) {
  StoreMeeting meeting;
  meeting.job_nonce = random_nonce();
  auto joins = read_joins(config, store, fingerprint, deadline);
  if (!joins) return joins.error();
  meeting.all_on_this_host = joins->one_host;
  auto addresses = interface_addresses();
  if (!addresses) return addresses.error();
  auto choice =
      choose_interface(*addresses, {config.interface, joins->one_host, own_address(config, *joins, deadline)});
  if (!choice) return choice.error();
  meeting.master = choice->chosen.address;
  return meeting;
}

}  // namespace

Result<std::unique_ptr<Bootstrap>> meet_by_store(const Config& config, Store& store) {
  const SteadyTime deadline = std::chrono::steady_clock::now() + config.rendezvous_timeout;
  const std::string fingerprint = host_fingerprint();
  if (config.rank == 0) {
    auto meeting = hold_meeting(config, store, fingerprint, deadline);
    if (!meeting) {
      const Status& why = meeting.error();
      const Status shortened(why.code(), "rank 0: " + why.message().substr(0, most_reason_bytes));
      (void)store.put("meeting", meeting::encode_failed_meeting(shortened));
      return why;
    }
    FABRING_TRY(store.put("meeting", meeting::encode(*meeting)));
    std::string address = meeting->master;
    return std::unique_ptr<Bootstrap>(std::make_unique<StoreBootstrap>(store, std::move(*meeting), std::move(address)));
  }
  const meeting::Join self{fingerprint, host_name(), static_cast<std::uint32_t>(::getpid()),
                           reachable_elsewhere(named_addresses(config, deadline))};
  FABRING_TRY(store.put(join_key(config.rank), meeting::encode(self)));
  auto value = store.get("meeting", time_left(deadline) + time_for_bad_news);
  if (!value && value.error().code() != ErrorCode::timeout) return value.error();
  if (!value)
    return Status(ErrorCode::timeout,
                  fmt::format("rank 0 did not come within {} (FABRING_RENDEZVOUS_TIMEOUT), or died; look at its output",
                              duration_text(config.rendezvous_timeout)),
                  meeting::about(0));
  auto meeting = meeting::decode_store_meeting(*value);
  if (!meeting) return meeting.error();
  std::string address = source_address_towards(meeting->master);
  if (address.empty())
    return Status(
        ErrorCode::unavailable,
        fmt::format("this host ({}) has no route to {}, the address of rank 0; set FABRING_INTERFACE on rank 0 "
                    "to an interface that all hosts reach",
                    host_name(), meeting->master));
  return std::unique_ptr<Bootstrap>(std::make_unique<StoreBootstrap>(store, std::move(*meeting), std::move(address)));
}

}  // namespace fabring

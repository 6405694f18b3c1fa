#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/base/named_thread.hpp"
#include "runtime/base/rank_list.hpp"
#include "runtime/base/wire.hpp"
#include "runtime/control/tree_plane.hpp"
#include "topology/host_identity.hpp"

// How the tree forms: the address of the parent, the connections to the neighbours, the names of all. Whoever waits
// says for whom, again and again: a rank that is alive and does not get on is seen in no other way.

namespace fabring {

using namespace std::chrono_literals;

namespace {

constexpr std::size_t most_address_bytes = 128;

std::string key_of(Rank rank) { return "control/" + std::to_string(rank); }

// The parent listens before it publishes its address, and goes on listening.
std::string why_refused(Rank parent, const Bootstrap& bootstrap) {
  return fmt::format(
      "; nobody listens there: the process that published this address has ended (look at the output of rank {}){}{}",
      parent,
      bootstrap.outlives_ranks()
          ? ", or the store still has the keys of an earlier engine: give every engine a prefix of its own"
          : "",
      bootstrap.all_on_this_host() ? "" : ", or a firewall refuses the port");
}

std::string_view what_to_look_at(const Bootstrap& bootstrap) {
  return bootstrap.all_on_this_host() ? "; is that process stopped?"
                                      : "; between hosts the ranks' own ports must be open too, not only the master's "
                                        "(docs/launchers.md, Ports; `fabring doctor net` tries them all)";
}

}  // namespace

struct TreePlane::Forming {
  Bootstrap& bootstrap;
  const SteadyTime started = std::chrono::steady_clock::now();
  const SteadyTime deadline;
  SteadyTime next_note;
  std::string door = {};          // of this rank
  std::string parents_door = {};  // once it is known
};

Status TreePlane::form(Bootstrap& bootstrap) {
  const SteadyTime now = std::chrono::steady_clock::now();
  Forming forming{bootstrap, now, now + config_.rendezvous_timeout, now + options_.note_silence_after};
  FABRING_TRY(loop_.status());  // without it the thread would neither sleep nor hear that it is to end
  auto listening = meeting_.listen(bind_host_);
  if (!listening && bind_host_ != bootstrap.local_address()) listening = meeting_.listen(bootstrap.local_address());
  if (!listening) return listening.error();
  forming.door = *listening;
  auto thread = start_thread("fabring-ctl", [this] { run(); });
  if (!thread) return thread.error();
  thread_ = std::move(*thread);
  // Told before all connections are there, so that a rank without a word is one that has none itself.
  WireWriter identity;
  identity.text(host_name(), 256).number(static_cast<std::uint32_t>(::getpid())).text(*listening, most_address_bytes);
  loop_.post([this, blob = identity.take()] { add_blob({0, self_, blob}, -1); });

  if (!tree_.children(self_).empty()) FABRING_TRY(bootstrap.put(key_of(self_), *listening));
  if (self_ > 0) {
    auto address = address_of_parent(forming);
    if (!address) return address.error();
    forming.parents_door = address->to_string();
    loop_.post([this, parent = *address] { meeting_.connect_to_parent(parent); });
  }
  FABRING_TRY(wait_forming(
      forming, [this] { return unlinked_.empty(); }, [&] { return links_awaited_locked(forming); }));

  FABRING_TRY(wait_forming(
      forming, [this] { return gather_.is_finished(); }, [this] { return names_awaited_locked(); }));
  const std::lock_guard lock(mutex_);
  auto blobs = gather_.take();
  for (std::size_t rank = 0; rank < blobs->size(); ++rank) {
    WireReader in((*blobs)[rank]);
    identities_[rank].host = control::tidy(in.text(256), 256);
    identities_[rank].pid = in.number<std::uint32_t>();
    const auto door = net::SocketAddress::parse_told(in.text(most_address_bytes), bind_host_);
    if (!in.complete() || !door)
      return Status(ErrorCode::mismatch, fmt::format("rank {} sent no host name and control address", rank));
    identities_[rank].door = *door;
  }
  formed_ = true;
  loop_.post([this] { find_parent(); });  // it may have gone in between
  return {};
}

Result<net::SocketAddress> TreePlane::address_of_parent(Forming& forming) {
  const Rank parent = tree_.parent(self_);
  const Awaited awaited{{parent},
                        fmt::format("rank {} of {}, which has not published its control address: look at its output",
                                    parent, config_.world_size)};
  for (;;) {
    const SteadyTime until = std::min({forming.deadline, forming.next_note, std::chrono::steady_clock::now() + 500ms});
    auto published = forming.bootstrap.get(key_of(parent), until);
    {
      const std::lock_guard lock(mutex_);
      if (lost_) return status_of(*lost_);  // a child, whose link may be up before
    }
    FABRING_TRY(forming.bootstrap.failure());
    if (published) {
      auto address = net::SocketAddress::parse_told(*published, bind_host_);
      if (address) return address;
      return address.error().with_prefix(fmt::format("rank {} published a bad address: ", parent));
    }
    if (published.error().code() != ErrorCode::timeout) return published.error();
    FABRING_TRY(not_yet(forming, awaited));
  }
}

// The parent goes on: anybody may knock at its door and be refused. That this rank is of the job it hears from the
// bootstrap, where this rank gives up.
void TreePlane::refused_by_parent(const Status& why) {
  const std::lock_guard lock(mutex_);
  refused_ = why;
  changed_.notify_all();
}

// Until every rank has its links, a death may be seen by the rendezvous only, so both are watched.
Status TreePlane::wait_forming(Forming& forming, const std::function<bool()>& formed,
                               const std::function<Awaited()>& awaited_locked) {
  for (;;) {
    Awaited awaited;
    std::string trouble;  // of this rank itself, which may be why others gave up
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, 50ms, [&] { return formed() || lost_ || !refused_.ok(); });
      if (formed()) return {};
      if (lost_) return status_of(*lost_);
      if (!refused_.ok()) return refused_;
      awaited = awaited_locked();
      trouble = formation_error_;
    }
    if (const Status ended = forming.bootstrap.failure(); !ended.ok())
      return trouble.empty() ? ended : Status(ended.code(), ended.message() + "; here: " + trouble, ended.context());
    FABRING_TRY(not_yet(forming, awaited));
  }
}

/// Says so where it is time to; an error once time is up.
Status TreePlane::not_yet(Forming& forming, const Awaited& awaited) const {
  const SteadyTime now = std::chrono::steady_clock::now();
  if (now >= forming.deadline) {
    ErrorContext context;
    if (awaited.ranks.size() == 1) context.rank = awaited.ranks.front();
    return Status(ErrorCode::timeout,
                  fmt::format("rank {} waited {} (FABRING_RENDEZVOUS_TIMEOUT) for {}", self_,
                              duration_text(config_.rendezvous_timeout), awaited.text),
                  context);
  }
  if (now < forming.next_note) return {};
  forming.next_note = now + options_.note_silence_after;
  log_.warning(fmt::format("still waiting for {}, for {} now", awaited.text, duration_text(now - forming.started)));
  return {};
}

TreePlane::Awaited TreePlane::links_awaited_locked(const Forming& forming) const {
  Awaited awaited{{unlinked_.begin(), unlinked_.end()}, {}};
  std::vector<Rank> children = awaited.ranks;
  std::erase(children, tree_.parent(self_));
  const bool waits_for_parent = children.size() < awaited.ranks.size();
  if (waits_for_parent)
    awaited.text = fmt::format("the control connection to rank {} at {}", tree_.parent(self_), forming.parents_door);
  if (!children.empty())
    awaited.text += fmt::format("{}{} of {} to connect to the control port of rank {} at {}",
                                awaited.text.empty() ? "" : " and for ", rank_list(children), config_.world_size, self_,
                                forming.door);
  if (!formation_error_.empty()) awaited.text += " (" + formation_error_ + ")";
  awaited.text += waits_for_parent && parent_refuses_ ? why_refused(tree_.parent(self_), forming.bootstrap)
                                                      : what_to_look_at(forming.bootstrap);
  return awaited;
}

TreePlane::Awaited TreePlane::names_awaited_locked() const {
  Awaited awaited;
  for (Rank rank = 0; rank < config_.world_size; ++rank)
    if (!gather_.has(rank)) awaited.ranks.push_back(rank);
  awaited.text = fmt::format("word of {} of {} over the control plane: their logs say which connections are missing",
                             rank_list(awaited.ranks), config_.world_size);
  return awaited;
}

}  // namespace fabring

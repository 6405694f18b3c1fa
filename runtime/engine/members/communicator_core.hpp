#pragma once
// CommunicatorCore: what a communicator keeps between operations: its members, the operations queued and running, small
// messages that came before their operation was called here, and how many of ours the others have taken. The driver's,
// except where marked.
//
// Early messages. A member may be ahead: its messages for an operation (or a tile) that has not begun here are kept, at
// most `window` of them from each member, long ones counted as several (weight_of), counted in `taken` when they are
// used. A sender holds back when half the window is open; then only its oldest operation and tile may go on, so what
// the receiver needs next is never stuck behind what it does not need yet.

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "collectives/choice/table.hpp"
#include "fabring/communicator.hpp"
#include "runtime/base/fork_origin.hpp"
#include "runtime/control/control_plane.hpp"
#include "runtime/engine/call/message_lengths.hpp"
#include "runtime/engine/execution/execution.hpp"
#include "runtime/engine/execution/read_choice.hpp"
#include "runtime/engine/flat/flat_runs.hpp"
#include "runtime/engine/members/account.hpp"
#include "runtime/engine/members/refusals.hpp"
#include "runtime/engine/members/sequence.hpp"
#include "runtime/engine/messages/dropped_grants.hpp"
#include "runtime/engine/messages/point_to_point.hpp"
#include "runtime/engine/plans/given_plan.hpp"
#include "runtime/engine/plans/plan_cache.hpp"
#include "runtime/engine/waiting/drive.hpp"

namespace fabring {

class MappedBlocks;

class CommunicatorCore {
 public:
  static constexpr std::uint32_t window = 128;
  /// A message that is sent unasked counts as so many: up to 17, so that after half a window, and what a member has not
  /// said yet that it took (a quarter, less one), there is room for one more of any length.
  static constexpr std::uint32_t weight_of(std::size_t bytes) {
    return 1 + static_cast<std::uint32_t>(bytes / (std::size_t{64} << 10));
  }
  // Operations of one communicator under way at once, and, if they have so many bytes of host memory, between hosts.
  static constexpr std::size_t most_active = 4, most_active_long = 2, long_bytes = std::size_t{512} << 10;
  static constexpr std::size_t most_early_grants = 1 << 16;  // of each member

  CommunicatorCore(std::weak_ptr<EngineCore> engine, std::shared_ptr<Drive> drive, std::uint32_t id, std::string label,
                   std::vector<Rank> members, Rank self, std::vector<int> node_of);

  ~CommunicatorCore();

  // Constant, any thread.
  const ForkOrigin origin;  ///< in a child of fork() nothing else than what is constant may be looked at
  std::weak_ptr<EngineCore> engine;
  const std::shared_ptr<Drive> drive;
  const std::uint32_t id;
  const std::string label;
  const std::vector<Rank> members;  ///< world rank of each member
  const Rank self;                  ///< own rank in it
  const std::vector<int> node_of;
  /// Ids of splits count up from below, then come those of shrinks (Shrinks::first_id); those that the caller numbers
  /// have this bit.
  static constexpr std::uint32_t subgroup_ids = std::uint32_t{1} << 31;
  bool is_subgroup() const { return (id & subgroup_ids) != 0; }
  // Set once, before anybody uses it.
  Time made_at{};
  std::shared_ptr<const GivenPlan> given;  ///< instead of what would be chosen; null: none
  bool made_after_world = false;           ///< that had failed, or ranks had been lost
  std::atomic<std::uint32_t> splits{0};    ///< calls of split() on it, alike on all members; for names
  std::mutex shrinking;                    ///< one shrink() after the other
  std::uint32_t shrinks = 0;               ///< under it: how many were well over, alike on all members
  int size() const { return static_cast<int>(members.size()); }
  const WorldShape& shape() const { return shape_; }
  /// No other one that its members have had has it; communicators of one number, disjoint colours of one split or
  /// subgroups, have other first ranks.
  std::uint64_t global_id() const { return global_id(id, members[0]); }
  static std::uint64_t global_id(std::uint32_t id, Rank first_member) {
    return (std::uint64_t{id} << 32) | static_cast<std::uint32_t>(first_member);
  }
  Rank rank_of_world(Rank world) const;  ///< -1 if not a member
  /// " (rank 0 of the job)" behind a member's number in a text; empty where that is its number in the job too.
  std::string in_the_job(Rank of) const;

  // Any thread, under `mutex`.
  mutable std::mutex mutex;
  Status failed;        ///< the first error
  bool shrunk = false;  ///< another has taken its place
  void fail(const Status& why) {
    if (!failed.ok()) return;
    failed = why;
    not_at_once.store(true);
  }
  std::atomic<bool> not_at_once{false};         ///< it has failed, or refused a call; read without it
  std::atomic<std::uint32_t> last_sequence{0};  ///< of the last collective; the driver takes one without it
  std::uint32_t take_sequence() {
    std::uint32_t last = last_sequence.load();
    while (!last_sequence.compare_exchange_weak(last, next_sequence(last))) {
    }
    return next_sequence(last);
  }
  std::shared_ptr<const ChoiceTable> choices;
  PlanCache plans;
  MessageLengths lengths;  ///< any thread

  // The driver.
  struct Member {
    std::uint32_t early_sent = 0;   ///< small messages sent to it, in all; these are all by weight_of()
    std::uint32_t early_acked = 0;  ///< of those, taken by it
    std::uint32_t taken = 0;        ///< its small messages taken here, in all
    std::uint32_t told = 0;         ///< taken, as it knows
    std::uint32_t early_kept = 0;   ///< kept here, not taken yet
    std::size_t early_grants = 0;   ///< likewise of its grants and announcements
    bool heard = false;             ///< something of it has come here: it has made this communicator
    bool has_withdrawn = false;     ///< this communicator has failed there, and waits for what it granted and lent
    std::uint32_t early_open() const { return early_sent - early_acked; }
  };
  struct EarlyKey {
    bool point_to_point;  // its sequences are those of a pair
    std::uint32_t sequence, tile;
    Rank peer;
    std::uint32_t message;
    RecordKind kind;
    auto operator<=>(const EarlyKey&) const = default;
  };
  struct Early {
    Record record;
    std::vector<std::byte> payload;
    bool taken = false;
  };
  std::optional<Failure> held;  ///< a failure that waits for a better word; until `held_until`
  Time held_until{};
  std::vector<Member> member;
  /// Something of this member has come, with how many of our small messages it has taken.
  void heard_of(Rank rank, std::uint32_t consumed) {
    Member& from = member[static_cast<std::size_t>(rank)];
    from.heard = true;
    if (consumed - from.early_acked <= from.early_open()) from.early_acked = consumed;
  }
  /// May this operation send a small message of so many bytes to this member now?
  bool may_send_early(const Execution& execution, std::uint32_t tile, Rank rank, std::size_t bytes) const;
  /// A small message of this member was taken, one that was `kept` before or one that just came; it hears of that if
  /// much of the window is open by now.
  void took_early(Rank rank, std::size_t bytes, bool kept, Transfer& transfer);
  /// Tells it how many were, and nothing else.
  void tell_what_was_taken(Rank rank, Transfer& transfer);
  std::uint64_t moves = 0;  ///< records and blocks that came, or were read
  std::deque<std::shared_ptr<Execution>> queued;
  std::vector<std::shared_ptr<Execution>> active;  ///< by sequence
  std::map<EarlyKey, Early> early;
  struct Past {
    std::uint32_t sequence = 0;
    Signature signature;
  };
  std::array<Past, 64> past{};  ///< what was called here, to explain mismatches found late
  PointToPoint messages{*this};
  ReadChoices reads;  ///< of its operations that only move data
  FlatRuns flat;
  std::uint32_t flat_sequence = 0;  ///< of the operation that one of them is at, which is in no list; 0: none

  RefusedHere refused;  ///< any thread, under `mutex`
  bool untold = false;  ///< likewise: it failed by a mismatch, of which no call has told

  /// Of the next operation of a plan that is_readable: are its messages read, or copied?
  ChosenRead choose_read(const Call& call, const MappedBlocks& mapped, const Clock& clock);

  /// Everything under way: collectives, sends and receives that transfer data.
  std::vector<std::shared_ptr<Execution>> running() const;

  /// What was done on it so far.
  Account account() const;
  /// Where that is kept when it is gone. Once, before anybody uses it.
  void keep_account_in(std::shared_ptr<AccountBook> book);
  /// Where members' grants for what was never called here go then. Likewise.
  void leave_grants_to(std::shared_ptr<DroppedGrants> dropped) { dropped_grants_ = std::move(dropped); }
  /// By which it tells, when it is dropped, what it has refused last. Likewise.
  void tell_refusals_by(std::shared_ptr<LastRefusals> last) { last_refusals_ = std::move(last); }

  Execution* find_active(std::uint32_t sequence) const;
  /// This one too, the first of those queued, beside those under way?
  bool may_begin(const Execution& next) const;

 private:
  std::shared_ptr<AccountBook> account_book_;
  std::shared_ptr<DroppedGrants> dropped_grants_;
  std::shared_ptr<LastRefusals> last_refusals_;
  std::vector<std::pair<Rank, Rank>> by_world_;  // sorted
  WorldShape shape_;
};

}  // namespace fabring

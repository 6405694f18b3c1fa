#pragma once
// EngineCore: drives every communicator of one engine over one endpoint. Whoever takes the drive lock makes progress
// for all; the others wait for their operation or for the lock. A blocking call drives in the caller's thread; the
// first asynchronous call starts the progress thread, which steps back whenever somebody is waiting. Tests drive by
// hand.
//
// Failure. A failure (own, or told by the control plane) fails communicators, never single operations: every operation
// under way ends with the same error on every rank. Memory is given back only when the endpoint has let go of it:
// grants that will not be used are answered with empty messages; a peer that does not answer (stopped, gone) is
// disconnected after a while, which ends its operations without disturbing other peers.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device/device_path.hpp"
#include "fabring/communicator.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/number_set.hpp"
#include "runtime/control/control_plane.hpp"
#include "runtime/engine/call/input_copies.hpp"
#include "runtime/engine/device/device_side.hpp"
#include "runtime/engine/engine_parts.hpp"
#include "runtime/engine/flat/flat_calls.hpp"
#include "runtime/engine/flat/flat_engine.hpp"
#include "runtime/engine/flat/flat_scratch.hpp"
#include "runtime/engine/members/claimed_ids.hpp"
#include "runtime/engine/members/communicator_core.hpp"
#include "runtime/engine/members/dropped.hpp"
#include "runtime/engine/members/leaving.hpp"
#include "runtime/engine/members/membership_check.hpp"
#include "runtime/engine/members/refusals.hpp"
#include "runtime/engine/members/settling.hpp"
#include "runtime/engine/members/shrinks.hpp"
#include "runtime/engine/members/suspects.hpp"
#include "runtime/engine/messages/orphans.hpp"
#include "runtime/engine/plans/choice_tables.hpp"
#include "runtime/engine/rank_state.hpp"
#include "runtime/engine/state_askers.hpp"
#include "runtime/engine/waiting/attended_time.hpp"
#include "runtime/engine/waiting/drive.hpp"
#include "runtime/engine/waiting/progress_thread.hpp"
#include "runtime/engine/waiting/waiting.hpp"
#include "runtime/engine/waiting/wake_event.hpp"
#include "runtime/memory/mapped_blocks.hpp"
#include "runtime/memory/scratch.hpp"
#include "runtime/status/status_door.hpp"
#include "runtime/transfer/transfer.hpp"
#include "transports/endpoint.hpp"

namespace fabring {

/// Does this failure end this communicator?
bool concerns(const Failure& failure, const CommunicatorCore& communicator);

class EngineCore final : public TransferListener, public std::enable_shared_from_this<EngineCore> {
 public:
  static std::shared_ptr<EngineCore> make(EngineParts parts);
  ~EngineCore() override;

  // Any thread.
  std::shared_ptr<CommunicatorCore> world() const { return world_; }
  std::shared_ptr<CommunicatorCore> make_communicator(std::uint32_t id, std::string label, std::vector<Rank> members);
  /// The same, but null if this engine has had a communicator of that number: what others have sent on the earlier one,
  /// or tell of it, may still come.
  std::shared_ptr<CommunicatorCore> make_subgroup(std::uint32_t id, std::string label, std::vector<Rank> members);
  /// Queues an operation. The Execution is done at once if the communicator has failed.
  /// `background`: it goes on also if nobody waits for it. `operation`: what `call` was made of; null: it is never run
  /// at once.
  std::shared_ptr<Execution> submit(const std::shared_ptr<CommunicatorCore>& communicator, Call call, bool background,
                                    const Operation* operation = nullptr);
  /// Runs an operation to its end: a small one at once in this thread, if its peers share memory and nothing else is
  /// under way. `call` is what `operation` asks for.
  Status run(const std::shared_ptr<CommunicatorCore>& communicator, Call call, const Operation& operation);
  /// The same for an operation that differs in its buffers at most from one that was run so lately; nothing if there is
  /// none, or the engine is gone.
  static std::optional<Status> run_again(const std::shared_ptr<CommunicatorCore>& communicator,
                                         const Operation& operation);
  /// Builds what an operation like this needs beforehand.
  Status prepare(CommunicatorCore& communicator, const Call& call);
  /// Why nothing more can be begun on it; success if it can.
  Status failure_of(const CommunicatorCore& communicator) const;
  static Status has_left();
  DeviceRuntime* device() const { return parts_.device.get(); }
  /// The way that a call whose buffers are in memory of a device takes, and why.
  DevicePath device_path(CommunicatorCore& communicator, Call call);
  /// The program's memory that peers have mapped.
  MappedBlocks& mapped() { return mapped_; }
  const InputCopies& input_copies() const { return input_copies_; }
  /// A call that this rank cannot make although the others may: they need not wait for it.
  void call_failed(const CommunicatorCore& communicator, const Status& why);
  /// Where calls go that are not made, as their arguments are wrong: those who wait in them hear why.
  Refusals& refusals() { return refusals_; }
  /// The same of a subgroup of this id.
  void refused_subgroup(std::uint32_t id, const Status& why);
  /// A communicator of these members that they may have made, and this rank has not.
  void did_not_make(std::uint32_t id, const std::string& label, std::span<const Rank> members, const Status& why);
  /// Waits until all members of it that are left have called this: who that is, and the number of a communicator of
  /// them.
  Result<Shrinks::Decision> agree_who_is_left(CommunicatorCore& communicator);
  Status wait(Execution& execution, std::chrono::nanoseconds limit);
  void drive_once();  ///< progress if nobody else makes it
  void abort(CommunicatorCore& communicator, std::string reason);
  Status leave();
  Traffic traffic();
  /// Operations that were run at once in their caller's thread, from beginning to end. For tests: nothing else tells.
  std::uint64_t ran_at_once() const { return flat_calls_.ran_so_far(); }
  /// What this rank is doing. Within half a second, whatever its threads do.
  RankState state();
  /// What it holds of the host's memory, but for copies of inputs. Whoever drives, or nobody else has the engine yet.
  MemoryAccount memory() const;
  /// The same of all ranks, as far as they answer in time; by rank.
  std::vector<RankNews> news(bool everybody);
  /// Answers `fabring status` from now on, until leave() is over. Errors: unavailable.
  Status open_status_door(std::uint64_t job_nonce);
  const Config& config() const { return parts_.config; }
  /// What this rank has of the cache next to memory; 0: not known.
  std::size_t cache_bytes() const { return parts_.cache_bytes; }
  /// What prices are made with: the machine, cut as this engine cuts.
  Machine pricing_machine() const;
  /// Priced once for every shape of world.
  std::shared_ptr<const ChoiceTable> choices(const WorldShape& shape);
  // Start-up, before anybody else uses the engine.
  /// The communicator chooses by this rule, and by nothing else that was chosen before.
  void take_algorithm(CommunicatorCore& communicator, const Override& rule);
  /// Prices are this machine's from now on, and choices those of the configuration.
  void take_machine(const Machine& machine);
  /// How long an operation that has no timeout of its own may take from now on, by this setting. FABRING_TIMEOUT until
  /// this is called.
  void take_time_for_any(std::chrono::nanoseconds limit, const char* setting) { time_for_any_ = {limit, setting}; }
  void add_to_report(std::string line) { parts_.report.push_back(std::move(line)); }
  const std::vector<std::string>& report() const { return parts_.report; }

  // Numbers of communicators, which the ranks of a split agree on (ClaimedIds). What is claimed nobody else here gets,
  // until it is given back or a communicator has been made with it.
  std::uint32_t propose_communicator_id(std::uint32_t at_least, std::uint32_t parent, unsigned failed);
  /// Gives back what was proposed here and claims what all have agreed on; false if somebody here has that.
  bool claim_communicator_id(std::uint32_t proposed, std::uint32_t agreed);
  void give_back_communicator_id(std::uint32_t id);

  /// From now on what comes while the program is elsewhere is looked at, twice a second and when a failure is heard of.
  void look_when_idle();

  // The driver.
  /// Posts the eager receives; true when every rank may be sent to. Before the first operation of any rank.
  bool ready_to_receive();
  bool progress();
  Transfer& transfer() const { return *transfer_; }
  Scratch& scratch() { return scratch_; }
  DeviceSide& devices() { return devices_; }
  /// A device failed under this operation: all ranks of its communicator hear of it.
  void device_failed(const Execution& execution, const Status& why);
  /// "rank 3 (host gpu-a)", as far as the host is known.
  std::string who(Rank world_rank) const;
  std::size_t eager_limit() const { return *parts_.eager_bytes; }
  Clock& clock() { return *parts_.clock; }
  /// A message of this member does not fit an operation: a mismatch of lengths is reported to all, anything else makes
  /// the member suspect.
  void refuse(CommunicatorCore& communicator, Rank member, const Execution& execution, const Record& record,
              const Status& why);
  /// How a call that all ranks of a communicator make is cut, on all of them alike.
  Tiling tiling_of(CommunicatorCore& communicator, const PreparedPlan& plan, const Call& call) const;
  /// Likewise, whatever is called; of sends and receives.
  TilingRules tiling_rules() const;
  /// Do hosts take so long to answer that more tiles are under way between them?
  bool waits_for_links() const;
  std::shared_ptr<const PreparedPlan> message_plan(CommunicatorCore& communicator, Collective collective, Rank peer);
  /// Starts it now; false if there is no room for one more, until PointToPoint::start_waiting(). One that cannot be
  /// started at all is reported, and its communicator fails.
  bool start_now(const std::shared_ptr<Execution>& execution);
  /// Is there room to start also what may wait for its other side for ever?
  bool may_start_ahead() const;
  /// It is over without having been started.
  void finish_now(const std::shared_ptr<Execution>& execution);
  /// Reports that a message does not fit the receive it meets, and fails the communicator.
  Status mismatched_message(CommunicatorCore& communicator, Rank member, const Signature& sent, const Call& receive);
  void keep_early(CommunicatorCore& communicator, Rank member, const Record& record,
                  std::span<const std::byte> payload);

  /// The connection to this rank failed or it does not keep to the protocol: nothing more is taken from it, and unless
  /// the control plane says better within a while, it is reported as lost.
  void suspect(Rank world_rank, const Status& why);

  // TransferListener
  void on_record(Rank peer, const Record& record, std::span<const std::byte> payload) override;
  void on_block(std::uint64_t cookie, Outcome outcome, std::uint32_t bytes) override;
  void on_lent(std::uint64_t cookie, std::span<const std::byte> message, std::uint32_t loan) override;
  void on_ticket(std::uint64_t cookie, std::span<const std::byte> ticket, std::uint32_t loan) override;
  void on_peer_lost(Rank peer, const Status& why) override;

 private:
  // engine_core.cpp: it is made; operations are submitted, begun and ended
  explicit EngineCore(EngineParts parts);
  using KeptMemory = std::vector<std::shared_ptr<const void>>;
  KeptMemory memory_of(const Call& call) const;
  KeptMemory memory_of(std::span<const Tensor> tensors) const;
  void take_submissions();
  void begin_message(CommunicatorCore& communicator, const std::shared_ptr<Execution>& execution);
  bool begin_fresh();  ///< true: what its thread waits for is over by that
  void start_queued(CommunicatorCore& communicator);
  void cannot_start(const Execution& execution);
  Status early_mismatch(const CommunicatorCore& communicator, const Execution& execution, Rank& peer) const;
  void heard_letter(Rank from, std::string_view letter);
  std::uint16_t free_index();
  void now_running(const std::shared_ptr<Execution>& execution, std::uint16_t index);
  void finished(const std::shared_ptr<Execution>& execution);
  std::vector<std::shared_ptr<CommunicatorCore>> communicators() const;
  bool is_used(std::uint32_t id) const;  ///< a communicator has it, or had; under mutex_
  bool is_gone(std::uint32_t id) const;  ///< a communicator of that id was made, and dropped

  // engine_driving.cpp: who makes progress, and how long one waits
  bool make_progress();
  void rest(std::chrono::microseconds limit);
  bool retire();  // true: some operation is over
  void end_of(const std::shared_ptr<Execution>& execution);
  void count_traffic();
  void drive(const std::function<bool()>& enough, std::chrono::nanoseconds limit) {
    drive(enough, limit, parts_.waiting);
  }
  void drive(const std::function<bool()>& enough, std::chrono::nanoseconds limit, const WaitPolicy& waiting);
  void notify_waiters();
  void wake_driver();  ///< there is something new; any thread

  // engine_background.cpp: where nobody waits
  void have_delivered();  ///< by the progress thread, what is left to send
  void set_going(const Execution& execution);
  bool begins_now(const Execution& execution) const;
  void look_again(ControlPlane& control);
  void look_after_failure(ControlPlane& control, int looks_before = 0);
  void look_if_idle();
  void see_what_has_come(const std::function<bool()>& enough = [] { return false; });

  // engine_memory.cpp: an allocation fails, with the drive held
  /// What is done for one communicator. If there is no memory for it that one fails, on all ranks.
  template <class Body>
  void within_memory(CommunicatorCore& communicator, Body&& body) {
    try {
      body();
    } catch (const std::bad_alloc&) {
      fail_for_memory(communicator);
    }
  }
  /// What is done for all. If there is no memory for it all communicators of this rank fail. True: there was.
  template <class Body>
  bool within_memory(Body&& body) {
    try {
      if (std::exchange(owes_failure_, false)) fail_all_for_memory();
      body();
      return true;
    } catch (const std::bad_alloc&) {
      return ran_out_of_memory();
    }
  }
  void fail_for_memory(CommunicatorCore& communicator);
  void fail_all_for_memory();
  bool ran_out_of_memory() noexcept;

  // engine_running_flat.cpp: small operations at once, in their callers' threads
  static bool is_flat(const Call& call);  ///< as far as the call tells
  bool may_run_at_once();                 ///< with the drive held: is nothing else under way?
  bool is_time_to_look();
  bool may_run_at_once(const CommunicatorCore& communicator, const Execution& execution) const;
  bool run_at_once(CommunicatorCore& communicator, const std::shared_ptr<Execution>& execution);
  FlatRun* find_flat(CommunicatorCore& communicator, const Operation& operation);
  /// The engine may be gone then.
  std::nullopt_t give_drive_back(const CommunicatorCore& communicator, HeldDrive& held);
  void drive_is_free();
  FlatRun* make_flat(CommunicatorCore& communicator, const Call& call, const Operation& operation);
  std::optional<Status> run_flat(const std::shared_ptr<CommunicatorCore>& communicator, FlatRun& flat, HeldDrive& held);
  FlatRun::End steps_of(FlatRun& flat, CommunicatorCore& communicator, std::uint32_t sequence);
  std::shared_ptr<Execution> go_on_or_fail(const std::shared_ptr<CommunicatorCore>& communicator, FlatRun& flat,
                                           std::uint32_t sequence);
  std::shared_ptr<Execution> go_on(const std::shared_ptr<CommunicatorCore>& communicator, FlatRun& flat,
                                   std::uint32_t sequence);

  // engine_news.cpp: what other ranks send
  Status compare(const CommunicatorCore& communicator, Rank member, const Record& record) const;
  void on_record(const std::shared_ptr<CommunicatorCore>& communicator, Rank peer, const Record& record,
                 std::span<const std::byte> payload);
  void check_late(CommunicatorCore& communicator, Rank member, const Record& record);
  void decline_grant(Rank peer, const Record& record);  ///< if it is one
  void keep_orphan(Rank peer, const Record& record, std::span<const std::byte> payload);
  void on_message(CommunicatorCore& communicator, Rank member, const Record& record,
                  std::span<const std::byte> payload);

  // engine_devices.cpp: copies of devices that end
  bool copy();
  bool watches_device() const;

  // engine_mismatches.cpp: ranks have called different things
  Status mismatch(const CommunicatorCore& communicator, Rank member, std::uint32_t sequence, const Signature& theirs,
                  const Signature& ours) const;
  Status mismatch(const std::string& label, Rank world_rank, std::uint32_t sequence, const Signature& theirs,
                  const Signature& ours) const;
  ErrorContext context_of(Rank world_rank) const;

  // engine_failure.cpp: a peer is lost or somebody aborts
  void take_failures();
  void apply(const Failure& failure);
  Status explain(const Failure& failure) const;
  void end(const CommunicatorCore& communicator, Execution& execution, const Status& why);
  void fail(CommunicatorCore& communicator, const Status& why);
  void report_suspects(Time now);
  void give_up_waiting_for(Rank peer);
  bool needs(Rank world_rank) const;
  bool is_away(Rank world_rank) const;
  void cut_off(Rank world_rank);
  void report(Failure failure);

  // engine_withdrawals.cpp: what peers are told beside the data when an operation fails
  void withdraw(const Execution& execution);
  void heard_withdrawal(CommunicatorCore& communicator, Rank member);
  void drop_early(CommunicatorCore& communicator);

  // engine_overdue.cpp: from time to time, about operations that take long
  void tick(Time now);
  void note_waiting(CommunicatorCore& communicator, const Execution& execution, Time now);
  static std::string unread(const CommunicatorCore& communicator, const Execution& execution);
  /// "; GPU 0 has not run what was posted to it", if it is so.
  static std::string not_run(const Execution& execution);
  void say_what_waits(Execution& execution, Time now);
  void try_the_unheard(CommunicatorCore& communicator, const Execution& execution, Time now);
  void check_refused(CommunicatorCore& communicator, const Execution& execution, Time now);
  void check_deadline(CommunicatorCore& communicator, const Execution& execution, Time now);
  void check_queued(CommunicatorCore& communicator, Time now);
  void give_up(CommunicatorCore& communicator, const Execution& execution, const Execution& waiting,
               const std::string& behind, Time now);
  std::string activity_of(Rank world_rank) const;
  bool is_silent(Rank world_rank) const;
  /// From any thread. `missing`: of the connection to it.
  std::string who_and_what(Rank world_rank, const std::string& missing = {}) const;
  std::string who_and_what_stands_between(Rank world_rank) const;

  // engine_leaving.cpp: how it leaves
  bool others_take_part(const CommunicatorCore& communicator) const;
  bool goes_on_with_others() const;
  void receive_the_last(const Status& why, std::chrono::milliseconds limit);
  void stop_others_driving();
  void end_what_is_under_way(const Status& why);
  Status say_goodbye(std::chrono::milliseconds limit);
  void close_endpoint();
  Status leave_now();
  void await_devices();
  void abandon_the_rest(const Status& why);
  Status log_untold();
  Accounts accounts() const;  ///< of this rank, with the drive held

  // engine_departures.cpp: others that have left
  void check_left(CommunicatorCore& communicator, Execution& execution);
  std::optional<Rank> first_to_leave(const CommunicatorCore& communicator, const Execution& execution) const;
  std::optional<Rank> last_to_leave(const CommunicatorCore& communicator) const;
  bool will_not_come(const CommunicatorCore& communicator, const Execution& execution, Rank member) const;
  std::string left_while(const CommunicatorCore& communicator, const Execution& execution, bool certain) const;
  void heard_goodbye(Rank world_rank, const std::string& account);
  Status compare_accounts();
  Status heard_mismatch(std::uint64_t communicator) const;

  // engine_dropped.cpp: communicators that others have dropped, or this rank has
  void heard_of_dropped(Rank from, std::string_view bytes);
  void ask_for_dropped(const CommunicatorCore& communicator, Execution& execution, Time now);
  bool is_dropped_before(const CommunicatorCore& communicator, const Execution& execution, Rank rank) const;
  void check_dropped(CommunicatorCore& communicator, Execution& execution, Time now);

  // engine_reporting.cpp: what this rank is doing
  void ask_state(StateAskers::Tell tell);
  void tell_state();
  void release_drive(HeldDrive& held);
  RankState outline(const std::set<const CommunicatorCore*>& busy = {}) const;
  RankState look();

  EngineParts parts_;
  Refusals refusals_;
  MappedBlocks mapped_;
  InputCopies input_copies_;
  Scratch scratch_;
  FlatScratch flat_scratch_;
  DeviceSide devices_;
  Orphans orphans_;
  std::unique_ptr<Transfer> transfer_;
  std::shared_ptr<CommunicatorCore> world_;
  ChoiceTables choices_;

  // Any thread, under mutex_.
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Execution>> submitted_;
  std::vector<Failure> failures_;
  std::vector<Failure> applied_;  ///< also concern communicators that are made later
  mutable std::unordered_map<std::uint32_t, std::weak_ptr<CommunicatorCore>> by_id_;
  mutable NumberSet gone_;  ///< of those that were dropped, and are no more in by_id_; none is used again
  ClaimedIds claimed_ids_;
  Traffic traffic_;
  std::atomic<Time> last_end_{Time{}};  ///< when the last operation ended
  Time began_{};
  std::atomic<bool> news_{false};         ///< submitted_ or failures_ hold something
  std::atomic<std::size_t> pending_{0};   ///< operations submitted and not done
  std::atomic<bool> undelivered_{false};  ///< what finished operations have sent is not all with the fabric yet

  // Driving.
  const std::shared_ptr<Drive> drive_ = std::make_shared<Drive>(this);
  StateAskers askers_{drive_->asked};
  std::mutex turn_mutex_;
  std::condition_variable turn_;    ///< of those who wait
  WakeEvent wake_event_;            ///< in which who drives sleeps, where there is no endpoint
  ProgressThread progress_thread_;  ///< started and stopped under mutex_
  Leaving leaving_;

  // The driver.
  std::deque<std::shared_ptr<Execution>> fresh_;  ///< submitted, and not with their communicators yet
  struct Awaited {
    const Execution* execution = nullptr;
    std::size_t most_bytes = 0;  ///< of an operation that may keep its thread
  };
  Awaited awaited_;                                  ///< by the thread that drives
  std::vector<std::shared_ptr<Execution>> running_;  ///< by index; null where free
  std::size_t running_count_ = 0;
  std::size_t first_free_ = 0;  ///< no index below is free
  Watchdog::Limit time_for_any_{parts_.config.timeout, "FABRING_TIMEOUT"};
  bool finished_some_ = false;
  bool owes_failure_ = false;    ///< there was no memory to tell that there was none
  bool scratch_wanted_ = false;  ///< an operation waits for scratch, or for one of the running to end
  Time next_tick_{};
  AttendedTime attended_;
  Suspects suspects_;
  std::optional<FlatEngine> flat_engine_;  ///< if there is a Transfer
  FlatCalls flat_calls_;
  bool endpoint_failed_ = false;  ///< as a whole, which has been reported
  Settling settling_;
  std::unique_ptr<StatusDoor> door_;
  const std::shared_ptr<AccountBook> account_book_ = std::make_shared<AccountBook>();
  const std::shared_ptr<DroppedGrants> dropped_grants_ = std::make_shared<DroppedGrants>();
  Departures departures_;
  DroppedElsewhere dropped_elsewhere_;
  Shrinks shrinks_;
  MembershipCheck membership_check_;
  std::set<Rank> left_out_;  ///< by shrinks; under mutex_
  std::atomic<bool> looks_when_idle_{false};
  unsigned looks_passed_over_ = 0;  ///< in the control thread, as the program called lately
};

}  // namespace fabring

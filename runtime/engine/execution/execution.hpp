#pragma once
// Execution: one operation being run: a plan bound to the caller's buffers. The data are cut into tiles; each tile runs
// the plan once, `depth` tiles at a time. Steps become ready when those they depend on are done; sends and receives are
// posted to Transfer and come back as completions; reductions run at once, on data that have just arrived and are still
// in the cache. Nothing allocates or locks per step once it has started.
//
// A step's life: its dependencies count down to zero; then it runs or waits for its message (or its grant). A
// recv_reduce receives into a slot as soon as one is free, before its dependencies are done; only the reduction waits
// for them. execution.cpp has the life of the whole, execution_tiles.cpp that of one tile, execution_messages.cpp what
// messages are and what happens when one comes, execution_sends.cpp, execution_receives.cpp and execution_loans.cpp how
// they go, come, and are read in place, execution_onward.cpp how a result is sent on while it is made.
//
// Buffers in memory of a device. The operation begins when the caller's stream has come to where it was called. Each
// tile is then copied to staging memory before its first steps may run, and back after its last one: the copies of one
// tile, the messages of the next and the reductions of a third overlap as tiles do anyway. Where the data are only
// moved and the endpoint takes memory of the device, nothing is staged but small messages, one by one.
// execution_device.cpp and execution_direct.cpp have that.
//
// Or, where ranks of this host can read memory of devices (Call::device.shared), the operands stay there: steps are
// kernels and copies that are posted and completed as messages are, and instead of a message a ticket may travel that
// says where it lies. What else is sent or comes passes through the staging memory, but for large messages to and from
// ranks of other hosts whose network card takes memory of the device. execution_on_device.cpp has that,
// execution_device_memory.cpp the memory, execution_tickets.cpp the tickets.
//
// Owned by shared pointers (Work, the engine). Everything is the driver's but what is marked "any thread".

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "fabring/communicator.hpp"
#include "fabring/status.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/engine/call/call.hpp"
#include "runtime/engine/device/mirrored_ranges.hpp"
#include "runtime/engine/execution/operands.hpp"
#include "runtime/engine/execution/read_choice.hpp"
#include "runtime/engine/execution/tiling.hpp"
#include "runtime/engine/flat/fast_loans.hpp"
#include "runtime/engine/plans/prepared_plan.hpp"
#include "runtime/engine/rank_state.hpp"
#include "runtime/engine/waiting/watchdog.hpp"
#include "runtime/memory/device_scratch.hpp"
#include "runtime/transfer/transfer.hpp"

namespace fabring {

class CommunicatorCore;
class EngineCore;
class FlatRun;

class Execution {
 public:
  Execution(std::shared_ptr<CommunicatorCore> communicator, Call call, std::shared_ptr<const PreparedPlan> plan,
            std::uint32_t sequence, Tiling tiling);
  ~Execution();
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  // Any thread.
  bool done() const { return done_.load(std::memory_order_acquire); }
  Status status() const { return done() ? status_ : Status(); }          // written before done
  Received received() const { return done() ? received_ : Received(); }  // likewise
  /// Calls it when the operation is over: now if it is, otherwise from publish().
  void notify(void (*function)(void*), void* context);
  /// Calls such a function; one that throws ends the process.
  static void tell(void (*function)(void*), void* context);
  /// What asked for it, if it may be run as a FlatRun. Before anybody else has it.
  void was_asked_by(const Operation& operation) {
    operation_ = operation;
    if (call_.tensors) operation_->tensors = *call_.tensors;  // the caller's list is gone by then
  }
  const std::optional<Operation>& operation() const { return operation_; }
  /// Memory that stays until it is over. Likewise.
  void hold(std::vector<std::shared_ptr<const void>> memory) { held_ = std::move(memory); }
  const std::shared_ptr<CommunicatorCore>& communicator() const { return communicator_; }
  const Call& call() const { return call_; }
  bool point_to_point() const { return is_message(call_.collective); }

  // The driver.
  std::uint32_t sequence() const { return sequence_; }
  /// Of its communicator's collectives: once, by who submits it.
  void has_number(std::uint32_t sequence) { sequence_ = sequence; }
  /// A send or receive that knows its other side: before start().
  void pair_with(Rank peer, std::uint32_t sequence, std::size_t count, std::int32_t tag,
                 std::shared_ptr<const PreparedPlan> plan, const TilingRules& rules);
  /// Ends without having been started: nothing needed to be transferred.
  void finish_unstarted() { complete_ = true; }
  enum class Start : std::uint8_t { started, wait, failed };
  /// Reserves scratch and starts the first tiles. `wait`: no scratch now, nothing is held. `failed`: see failure().
  Start start(EngineCore& engine, std::uint16_t index, Time now);
  bool started() const { return started_; }
  /// Before start(): so much of it has been done by `flat`, which is kept until then, or as long as something is being
  /// sent from its scratch. What that lent is this one's to wait for, started or not; what it is still sending too.
  void go_on_from(EngineCore& engine, std::unique_ptr<FlatRun> flat) noexcept;
  /// Will some of it have been done before start()?
  bool goes_on() const { return flat_ != nullptr; }
  bool waits_for_stream() const { return waits_for_stream_; }
  /// Runs what is ready; true if anything moved.
  bool advance();
  /// News from a member. `peer` is its rank in the communicator. Errors are the peer's fault.
  Status on_record(Rank peer, const Record& record, std::span<const std::byte> payload);
  /// Where only the two ranks of a message know its length: does the member count what this rank does? A mismatch if
  /// not.
  Status check_length(Rank peer, const Record& record) const;
  void on_block(std::uint32_t tile_slot, StepId step, Outcome outcome, std::uint32_t bytes);
  /// A received message lies in its sender's memory.
  void on_lent(std::uint32_t tile_slot, StepId step, std::span<const std::byte> message, std::uint32_t loan);
  /// So it does, in memory of a device.
  void on_ticket(std::uint32_t tile_slot, StepId step, std::span<const std::byte> ticket, std::uint32_t loan);
  /// What a device was to do is over.
  void on_copied(std::uint32_t tile_slot, StepId step, const Status& status);
  /// A receive that gets what has come already, or, of a message to oneself, what `from` sends: before start().
  void deliver(std::vector<std::byte> payload) { delivered_ = std::move(payload); }
  void deliver(std::shared_ptr<Execution> from) { delivered_from_ = std::move(from); }
  const std::shared_ptr<Execution>& delivered_from() const { return delivered_from_; }
  /// This member has failed in it, and waits for what it granted and lent: it has that back now. The rest goes on as
  /// far as it can, and ends with the reason when that is known here.
  void give_up_on(Rank member);
  /// Ends it; it is finished once no block is outstanding. The first reason counts.
  void fail(const Status& why);
  bool failed() const { return !failure_.ok(); }
  const Status& failure() const { return failure_; }
  /// Nothing of it is in flight any more, well or not.
  bool finished() const {
    return complete_ ||
           ((failed() || (started_ && tiles_left_ == 0)) && outstanding_ == 0 && copies_ == 0 && !is_lending());
  }
  /// Gives scratch back, publishes the status; Work sees it.
  void publish();
  /// The same of one that has failed and does not finish: devices and peers may use its memory yet, so nothing is given
  /// back. It must stay for as long as the process.
  void abandon();
  /// The device that has not run all that was posted for this; -1: none.
  int busy_device() const;
  /// May an early message for this tile be taken now?
  bool tile_active(std::uint32_t tile) const;
  /// Blocks posted and not completed.
  std::uint32_t outstanding() const { return outstanding_ + copies_ + (is_lending() ? 1 : 0); }
  /// World ranks with a block outstanding, and whom it waits for (in the communicator).
  std::vector<Rank> peers_outstanding() const;
  std::vector<Rank> waiting_for() const;
  /// Whom it waits for; if for none, those who have not taken yet what it has sent or lent them.
  std::vector<Rank> held_up_by() const;
  /// Lets those it waits for know what was called here, if nothing has told them yet.
  void announce_waiting();
  /// Does a send wait for its grant whose receiver may have heard nothing of this call?
  bool unannounced() const { return unannounced_; }
  /// The oldest tile with small messages to this peer not yet sent; tiles() if none.
  std::uint32_t oldest_eager_tile(int peer_index) const;
  /// Its operands stay in memory of a device.
  bool on_device() const { return on_device_; }
  const PreparedPlan& prepared() const { return *plan_; }
  const std::shared_ptr<const PreparedPlan>& prepared_shared() const { return plan_; }
  std::uint32_t tiles() const { return tiling_.tiles; }
  /// How long it has waited; call(), before anybody else has the operation.
  Watchdog& watchdog() { return watchdog_; }
  const Watchdog& watchdog() const { return watchdog_; }
  std::uint64_t bytes_done() const;
  /// Of all tiles; it grows while anything moves.
  std::uint64_t steps_done() const { return steps_done_; }
  OperationState state(const CommunicatorCore& communicator, OperationPhase phase, Time now) const;
  /// "in allreduce #3 on communicator 'world'", for errors.
  std::string place() const;

  static std::uint64_t cookie(std::uint16_t index, std::uint32_t tile_slot, StepId step);

 private:
  struct StepState;
  struct Tile;
  enum class Data : std::uint8_t {
    none,
    posted,
    here,
    early,
    used,
    on_its_way,  ///< out of a loan that must not wait for this rank
    to_grant,    ///< once more, as its ticket could not be used
  };
  /// Of a reduce that PreparedPlan::reads_early.
  enum class Early : std::uint8_t {
    none,
    reading,
    read,     ///< the result is there, or aside
    storing,  ///< from aside to the output
  };

  struct Ready {
    Tile* tile;
    StepId step;
  };
  struct PeerProgress {
    std::uint32_t outstanding = 0;         // blocks, both ways
    std::uint32_t sends_outstanding = 0;   // of these
    std::uint32_t sent = 0, received = 0;  // messages
    bool told = false;                     // it has had a record of this operation
  };

  // execution_memory.cpp
  Start reserve();
  std::size_t lay_out();
  bool borrow(std::uint32_t depth, std::size_t slots, bool beyond_budget);
  void give_back_scratch();

  // execution.cpp
  void be_done();

  // execution_tiles.cpp
  void wait_for_unwritten();
  void start_tiles();
  void start_tile(std::uint32_t index);
  void take_early(Tile& tile);
  void go_on(Tile& tile);
  void finish_tile(Tile& tile);

  // execution.cpp
  void make_ready(Tile& tile, StepId id);
  bool is_receive(const Ready& ready) const { return plan_->plan.steps[ready.step].kind == StepKind::recv; }
  bool choose_next();
  void run(Tile& tile, StepId id);
  void step_done(Tile& tile, StepId id);

  // execution_device.cpp
  bool wait_for_stream();
  void copy_delivered();
  bool load(Tile& tile);
  void loaded(Tile& tile);
  bool store(Tile& tile);
  void take_delivered(Tile& tile);
  void post_copies(std::uint32_t tile_slot, CopyWay way, StepId step);

  // execution_device_memory.cpp
  enum class Stay : std::uint8_t { yes, no, later };
  Stay stay_on_device();
  bool admit(const std::vector<Rank>& far, const std::byte* at, std::size_t bytes);
  std::span<std::byte> admitted_operand(const Tile& tile, StepId id) const;
  bool borrow_for_device(std::uint32_t depth, std::size_t slots, bool beyond_budget);
  void give_back_for_device();
  bool may_have_mirror(const Tile& tile) const;
  bool take_mirror(Tile& tile);
  void leave_mirror(Tile& tile);

  // execution_on_device.cpp
  void run_on_device(Tile& tile, StepId id);
  void post_on_device(Tile& tile, StepId id, const std::byte* incoming);
  void on_device_done(Tile& tile, StepId id, const Status& status);
  void operand_came(Tile& tile, StepId receive);
  void read_early(Tile& tile, StepId id);
  void store_early(Tile& tile, StepId id);
  bool mirrored(Tile& tile, StepId send);
  void came_to_host(Tile& tile, StepId id);
  void read_incoming(Tile& tile, StepId id);
  bool stays_where_it_comes(StepId receive) const;

  // execution_tickets.cpp
  void post_ticket(Tile& tile, StepId id, Slot slot);
  void use_ticket(Tile& tile, StepId id);

  // execution_direct.cpp
  void choose_path();
  struct Messages {
    std::vector<Rank> peers;
    bool small = false, large = false;
  };
  Messages look_at_messages() const;
  std::size_t bounce_bytes() const;
  bool bounces(const Tile& tile, StepId id) const;
  std::byte* bounce(const Tile& tile, StepId id) const;
  void bring_to_bounce(Tile& tile, StepId id);
  void bring_from_bounce(Tile& tile, StepId id, std::span<const std::byte> payload);
  void post_direct_copy(const Tile& tile, StepId id, const Block& on_device, CopyWay way);
  void direct_copy_done(Tile& tile, StepId id);
  bool copy_on_device(Tile& tile, StepId id);

  // execution_sends.cpp
  void run_send(Tile& tile, StepId id);
  void land(Tile& tile, StepId id);
  void post_send(Tile& tile, StepId id, Slot slot);
  void now_outstanding(StepId id);
  void no_longer_outstanding(StepId id);
  void grant_first();
  bool take_grant(Tile& tile, StepId id, const Record& record);
  void announce(const Tile& tile, StepId id);

  // execution_onward.cpp
  void run_local(Tile& tile, StepId id);
  void fold_onward(Tile& tile, StepId id, const std::byte* incoming = nullptr);
  bool awaits_grants(Tile& tile, StepId id);
  bool may_write_ahead(const Tile& tile, StepId send) const;

  // execution_receives.cpp
  void run_recv(Tile& tile, StepId id);
  void run_recv_reduce(Tile& tile, StepId id);
  void post_slot_receives();
  bool post_slot_receive(Tile& tile, StepId id);
  Arrival arrival_of(const Tile& tile, StepId id) const;
  void grant(Tile& tile, StepId id, Slot slot, std::size_t bytes, Arrival arrival);

  // execution_loans.cpp
  bool lend(const Tile& tile, const Record& record, StepId id, std::span<const std::byte> from);
  bool is_lending() const;
  void lending(Tile& tile, StepId id);
  bool stays_in_landing(Tile& tile, StepId receive, std::span<const std::byte> payload);
  void empty_landings(Tile& tile, StepId reader);
  bool give_back(Tile& tile, StepId receive);
  bool give_back_read(Tile& tile, StepId reader);
  void bring_home(Tile& tile, StepId receive);

  // execution_messages.cpp
  void take_small(Tile& tile, StepId id, std::span<const std::byte> payload);
  Result<StepId> step_of(const Tile& tile, Rank peer, const Record& record) const;
  Record record_for(const Tile& tile, StepId id, RecordKind kind, std::size_t bytes) const;
  /// lengths_by_pair(): elements of the whole block that this message is of.
  std::size_t length_between(StepId id) const;
  Rank world_rank(StepId id) const;
  PeerProgress& peer_of(StepId message) { return peers_[static_cast<std::size_t>(plan_->peer_of_step[message])]; }
  // Below.
  std::uint32_t tile_slot(const Tile& tile) const;
  const Block& message_operand(StepId id) const;
  std::size_t message_bytes(const Tile& tile, StepId id) const;
  bool skipped(const Tile& tile, StepId id) const;

  // execution_state.cpp
  bool awaits(const Tile& tile, StepId id) const;

  std::shared_ptr<CommunicatorCore> communicator_;
  EngineCore* engine_ = nullptr;
  Call call_;
  std::shared_ptr<const PreparedPlan> plan_;
  std::uint32_t sequence_;
  Tiling tiling_;
  Watchdog watchdog_;
  Signature signature_;
  std::unique_ptr<Operands> operands_;
  std::optional<Operation> operation_;
  std::unique_ptr<FlatRun> flat_;
  std::uint16_t index_ = 0;
  std::size_t eager_limit_ = 0;  // larger messages wait for a grant
  bool fits_cache_ = true;
  bool started_ = false;
  bool complete_ = false;
  bool intact_ = true;  // else what was read of a peer that is lost may be anything, and nothing is made of it

  std::vector<std::unique_ptr<Tile>> tiles_;  // depth of them, tile t in tiles_[t % depth]
  std::uint32_t next_tile_ = 0;
  std::uint32_t tiles_left_ = 0;
  std::uint32_t outstanding_ = 0;
  std::vector<PeerProgress> peers_;  // of the plan
  std::uint64_t steps_done_ = 0;
  bool unannounced_ = false;
  std::vector<Ready> ready_;
  std::size_t ready_receives_ = 0;  // of ready_: recv steps
  std::vector<Ready> retry_;        // posts answered `again`, or the window is full
  std::vector<Ready> retrying_;
  bool look_again_ = false;  // what is in retry_ may go on without news
  bool read_loan_ = false;   // since it was last looked for news
  FastLoans fast_loans_;
  ChosenRead read_;
  std::vector<Ahead> ahead_;  // where a result is written while it is made
  // Slots for recv_reduce, all of one size.
  std::vector<std::byte*> slots_;
  std::vector<std::byte*> free_slots_;
  std::size_t slot_bytes_ = 0;
  std::size_t area_bytes_ = 0;     // scratch of one tile
  std::size_t staging_bytes_ = 0;  // likewise

  // Buffers in memory of a device.
  bool on_device_ = false;
  std::unique_ptr<Operands> device_operands_;  // where devices read and write
  std::size_t mirror_scratch_ = 0;             // staging: bytes before what stands for the plan's areas
  std::uint32_t promised_mirrors_ = 0;         // of staging_bytes_ that nobody needed so far
  std::vector<std::byte*> free_mirrors_;       // that a tile had
  bool took_mirror_ = false;
  std::size_t device_area_bytes_ = 0;  // scratch of one tile on the device
  bool results_aside_ = false;         // what reads early may not write the output, which is being sent
  // What cards read and write there: for messages to and from ranks of other hosts, the buffers, and the scratch too.
  bool admitted_ = false, scratch_admitted_ = false;
  bool waits_for_stream_ = false;
  std::uint32_t copies_ = 0;                   // groups posted and not over
  std::vector<DeviceCopy> copy_list_;          // being made
  std::vector<std::uint32_t> bounce_of_step_;  // which place its small messages have; empty: they need none
  std::uint32_t bounces_ = 0;
  std::vector<std::byte> delivered_;
  std::shared_ptr<Execution> delivered_from_;
  std::vector<std::shared_ptr<const void>> held_;  // memory of Engine::allocate that it works on

  Status failure_;
  Status status_;
  Received received_;
  std::atomic<bool> done_{false};
  std::mutex listener_mutex_;
  void (*listener_)(void*) = nullptr;  // whom to tell when it is done; under listener_mutex_
  void* listener_context_ = nullptr;
};

// What has become of a step of the plan in one tile.
struct Execution::StepState {
  std::uint32_t need = 0;              ///< steps it depends on that are not done
  std::uint32_t operands_to_come = 0;  ///< reduces that read early: of their operands
  Data data = Data::none;              ///< receives: is the message here?
  Early early = Early::none;           ///< reduces
  bool waiting = false;                ///< sends: ready, no grant yet
  bool by_ticket = false;              ///< sends: the peer takes a ticket instead
  bool only_ticket = false;            ///< messages that were granted no memory but for a ticket
  bool in_full = false;                ///< messages whose ticket was refused
  bool by_card = false;                ///< receives that are posted to memory of the device
  bool lending = false;                ///< sends: being read where they lie
  bool written_ahead = false;          ///< sends: what is to be sent has been written to where it will be received
  bool finished = false;               ///< it was done with the reduction it waits for
  bool bounced = false;                ///< small sends from memory of a device: in their bounce
  Slot granted = 0;                    ///< sends: slot the peer named, 0 if none yet
  std::byte* slot = nullptr;           ///< recv_reduce: where its block lands
  struct Lent {
    const std::byte* at = nullptr;  ///< in the peer's memory; null: nothing is lent
    std::uint32_t loan = 0;
    bool reading = false;               ///< by work of a device that is not over
    std::shared_ptr<std::byte> opened;  ///< what keeps it mapped
  };
  Lent lent;  ///< receives
};

// One tile in flight.
struct Execution::Tile {
  Placement place;
  Placement there;  // on the device, if operands stay there
  DeviceScratch::Block scratch_there;
  MirroredRanges mirrors;   // in `place`, of `there`
  bool has_mirror = false;  // else nobody may touch what is in `place`
  bool active = false;
  bool stored = false;  // what it leaves in memory of a device is there
  std::size_t remaining = 0;
  std::vector<StepState> steps;
  struct Landed {
    StepId receive = 0;
    std::uint32_t landing = 0;
  };
  std::vector<Landed> landed;  // receives whose message is read where it landed
  std::size_t next_slot_receive = 0;
  std::uint32_t looks_for_grants = 0;
  std::vector<std::uint32_t> eager_left;  // small messages still to send, per peer

  std::uint32_t index() const { return place.tile; }
  /// For any tile of this plan, once.
  void make_room(const PreparedPlan& prepared);
  /// Nothing of the plan has been done.
  void begin(const PreparedPlan& prepared);
};

inline std::uint32_t Execution::tile_slot(const Tile& tile) const { return tile.index() % tiling_.depth; }

inline const Block& Execution::message_operand(StepId id) const {
  const Step& step = plan_->plan.steps[id];
  return step.kind == StepKind::send ? step.from : step.to;
}

inline std::size_t Execution::message_bytes(const Tile& tile, StepId id) const {
  return operands_->bytes_of(tile.place, message_operand(id));
}

// Empty messages travel in the first tile only: there they prove that both sides called the same.
inline bool Execution::skipped(const Tile& tile, StepId id) const {
  return tile.index() > 0 && message_bytes(tile, id) == 0;
}

}  // namespace fabring

#pragma once
// Execution: one collective being run: a plan bound to the caller's buffers. The vector is cut into tiles; each tile
// runs the plan once, `depth` tiles at a time. Steps become ready when those they depend on are done; sends and
// receives are posted to Transfer and come back as completions; reductions run at once, on data that has just arrived
// and is still in the cache. Nothing allocates or locks per step once it has started.
//
// A step's life: its dependencies count down to zero; then it runs or waits for its message (or its grant). A
// recv_reduce receives into a slot as soon as one is free, before its dependencies are done; only the reduction waits
// for them.
//
// Owned by shared pointers (Work, the engine). Everything is the driver's but what is marked "any thread".

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "collectives/algorithms.hpp"
#include "fabring/status.hpp"
#include "fabring/types.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/engine/prepared_plan.hpp"
#include "runtime/transfer/transfer.hpp"

namespace fabring {

class CommunicatorCore;
class EngineCore;

struct Call {
  Collective collective = Collective::allreduce;
  Algorithm algorithm = Algorithm::ring;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::size_t count = 0;
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;

  std::size_t bytes() const { return count * size_of(type); }
  Signature signature() const;
  std::string describe() const;  // "allreduce(1048576 x float32, sum, ring)"
};

std::string describe(const Signature& signature);

/// How a call is cut. Depends only on what all ranks know alike, except `depth`, which is local.
struct Tiling {
  std::uint32_t tiles = 1;
  std::uint32_t depth = 1;
};

class Execution {
 public:
  Execution(std::shared_ptr<CommunicatorCore> communicator, const Call& call, std::shared_ptr<const PreparedPlan> plan,
            std::uint32_t sequence, Tiling tiling);
  ~Execution();
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  // Any thread.
  bool done() const { return done_.load(std::memory_order_acquire); }
  Status status() const { return done() ? status_ : Status(); }  // written before done
  const std::shared_ptr<CommunicatorCore>& communicator() const { return communicator_; }
  const Call& call() const { return call_; }
  std::uint32_t sequence() const { return sequence_; }

  // The driver.
  enum class Start : std::uint8_t { started, wait, failed };
  /// Reserves scratch and starts the first tiles. `wait`: no scratch now, nothing is held. `failed`: see failure().
  Start start(EngineCore& engine, std::uint16_t index, Time now);
  bool started() const { return started_; }
  Time started_at() const { return started_at_; }
  /// Runs what is ready; true if anything moved.
  bool advance();
  /// News from a member. `peer` is its rank in the communicator. Errors are the peer's fault.
  Status on_record(Rank peer, const Record& record, std::span<const std::byte> payload);
  void on_block(std::uint32_t tile_slot, StepId step, Outcome outcome, std::uint32_t bytes);
  /// Ends it; it is finished once no block is outstanding. The first reason counts.
  void fail(const Status& why);
  bool failed() const { return !failure_.ok(); }
  const Status& failure() const { return failure_; }
  /// Nothing of it is in flight any more, well or not.
  bool finished() const { return started_ ? (tiles_left_ == 0 || failed()) && outstanding_ == 0 : failed(); }
  /// Gives scratch back, publishes the status; Work sees it.
  void publish();
  /// May an early message for this tile be taken now?
  bool tile_active(std::uint32_t tile) const;
  /// Blocks posted and not completed.
  std::uint32_t outstanding() const { return outstanding_; }
  /// World ranks with a block outstanding, and whom it waits for (in the communicator).
  std::vector<Rank> peers_outstanding() const;
  std::vector<Rank> waiting_for() const;
  /// The oldest tile with small messages to this peer not yet sent; tiling.tiles if none.
  std::uint32_t oldest_eager_tile(int peer_index) const;
  const PreparedPlan& prepared() const { return *plan_; }
  std::uint32_t tiles() const { return tiling_.tiles; }
  Time next_note{};  ///< when to say again that it waits
  std::uint64_t bytes_done() const;

  static std::uint64_t cookie(std::uint16_t index, std::uint32_t tile_slot, StepId step);

 private:
  struct Tile;
  enum class Data : std::uint8_t { none, posted, here, early };

  void start_tiles();
  void start_tile(std::uint32_t index);
  void make_ready(Tile& tile, StepId id);
  void run(Tile& tile, StepId id);
  void run_send(Tile& tile, StepId id);
  void run_recv(Tile& tile, StepId id);
  void run_recv_reduce(Tile& tile, StepId id);
  void run_reduce(Tile& tile, const Step& step);
  void post_send(Tile& tile, StepId id, Slot slot);
  void post_slot_receives();
  void reduce_incoming(Tile& tile, StepId id, const std::byte* incoming);
  void step_done(Tile& tile, StepId id);
  void finish_tile(Tile& tile);
  std::span<std::byte> bytes_of(const Tile& tile, const Block& block) const;
  std::size_t message_bytes(const Tile& tile, StepId id) const;
  std::uint32_t tile_slot(const Tile& tile) const;
  Result<StepId> step_of(const Tile& tile, Rank peer, const Record& record) const;
  Record record_for(const Tile& tile, StepId id, RecordKind kind, std::size_t bytes) const;
  void announce(const Tile& tile, StepId id);
  void grant(Tile& tile, StepId id, Slot slot, std::size_t bytes);
  Rank world_rank(StepId id) const;
  Start reserve();
  bool borrow(std::uint32_t depth, std::size_t slots, bool beyond_budget);

  std::shared_ptr<CommunicatorCore> communicator_;
  EngineCore* engine_ = nullptr;
  Call call_;
  std::shared_ptr<const PreparedPlan> plan_;
  std::uint32_t sequence_;
  Tiling tiling_;
  std::uint16_t index_ = 0;
  std::size_t element_bytes_;
  std::size_t eager_limit_ = 0;  // larger messages wait for a grant
  Time started_at_{};
  bool started_ = false;

  std::vector<std::unique_ptr<Tile>> tiles_;  // depth of them, tile t in tiles_[t % depth]
  std::uint32_t next_tile_ = 0;
  std::uint32_t tiles_left_ = 0;
  std::uint32_t outstanding_ = 0;
  std::vector<std::uint32_t> outstanding_per_peer_;
  std::vector<bool> told_;  // per peer: it has had a record of this operation
  struct Ready {
    Tile* tile;
    StepId step;
  };
  std::vector<Ready> ready_;
  std::vector<Ready> retry_;  // posts answered `again`, or the window is full
  std::vector<Ready> retrying_;
  // Slots for recv_reduce, all of one size.
  std::vector<std::byte*> slots_;
  std::vector<std::byte*> free_slots_;
  std::size_t slot_bytes_ = 0;
  std::size_t area_bytes_ = 0;  // explicit scratch of one tile
  std::vector<std::size_t> area_offsets_;

  Status failure_;
  Status status_;
  std::atomic<bool> done_{false};
};

}  // namespace fabring

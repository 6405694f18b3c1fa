#pragma once
// FlatRun: an operation run at once by the thread that calls it: the steps of its plan one after the other, each
// message a record (transfer.hpp) that is read where the peer or the endpoint put it. Nothing is queued, allocated or
// registered anywhere. When something else than the next message comes, or nothing comes for too long, it stops where
// it is, and an Execution goes on from there: on the wire the two are the same, so that it does not matter which of
// them a peer uses. Kept by its communicator, because what it works out for one call serves the next. The driver's.
// flat_run.cpp has the steps, flat_run_preparation.cpp what comes before them, flat_run_waits.cpp where it waits.
//
// An operation of several tiles is run so between two ranks. Each receive of a plan begins a *stage*; in turn t stage s
// of tile t - s is run, the first stages first. So what a rank waits for was sent by its peer most of a turn ago, and
// both directions are in use all the time. Where one tile is under way at a time each turn is one stage of it.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "collectives/reduce/reduce.hpp"
#include "fabring/operation.hpp"
#include "runtime/engine/execution/operands.hpp"
#include "runtime/engine/execution/read_choice.hpp"
#include "runtime/engine/flat/fast_loans.hpp"
#include "runtime/engine/flat/flat_scratch.hpp"
#include "runtime/engine/flat/flat_steps.hpp"
#include "runtime/engine/plans/prepared_plan.hpp"
#include "runtime/transfer/fast_record.hpp"

namespace fabring {

class CommunicatorCore;
class Transfer;
struct FlatEngine;

class FlatRun {
 public:
  /// Can a call that is cut like this be run so?
  static bool may_be(const PreparedPlan& plan, const Call& call, const Tiling& tiling);

  /// `call` is what `operation` asks for, `tiling` how it is cut.
  FlatRun(std::shared_ptr<const PreparedPlan> plan, Call call, const Operation& operation, const Tiling& tiling,
          const CommunicatorCore& communicator, const Transfer& transfer);

  /// As they compare, but for factors: 0.0 and -0.0 are equal and scale differently, and a NaN is none that was kept.
  static bool does_the_same(const Reduction& a, const Reduction& b) {
    if (a.op() != ReduceOp::premul_sum || b.op() != ReduceOp::premul_sum) return a == b;
    return a.has_factor() == b.has_factor() && a.whole_factor() == b.whole_factor() &&
           std::bit_cast<std::uint64_t>(a.factor()) == std::bit_cast<std::uint64_t>(b.factor());
  }
  /// Was it made for operations like this one, buffers aside?
  bool serves(const Operation& operation) const {
    return operation.count == operation_.count && operation.collective == operation_.collective &&
           operation.type == operation_.type && operation.root == operation_.root &&
           does_the_same(operation.reduction, operation_.reduction) && !operation.by_blocks &&
           operation.wire_type == operation_.wire_type && operation.timeout == operation_.timeout &&
           has_lengths_of(operation.tensors);
  }
  /// False: there is something wrong with them, or the processor may not touch them.
  bool take_buffers(const Operation& operation, const CommunicatorCore& communicator, DeviceRuntime* devices) {
    return took_these(operation, devices) || take_others(operation, communicator, devices);
  }
  /// Are the peers of its several tiles, if it has, all reached by fast messages?
  bool fits(const Transfer& transfer, const CommunicatorCore& communicator) const;
  /// Is what came before the call `sequence`, if anything, small messages of a call like this one, and in its plan?
  /// An Execution says what is wrong with others.
  bool expects_what_came(const CommunicatorCore& communicator, std::uint32_t sequence) const;
  const std::shared_ptr<const PreparedPlan>& plan() const { return plan_; }
  const Tiling& tiling() const { return tiling_; }
  const Signature& signature() const { return signature_; }

  /// It is over, or is not run after all. The next call needs a copy of its own.
  void drop_copy() {
    if (!call_.owned) return;
    call_.owned.reset();
    taken_ = false;
  }

  /// The scratch memory that it runs in, before it runs; false: there is no memory for it.
  bool take_scratch(FlatScratch& of_all);
  void give_scratch_back(FlatScratch& to_all) {
    if (scratch_) to_all.give_back(std::move(scratch_));
  }

  enum class End : std::uint8_t { done, stopped };
  End run(const FlatEngine& engine, CommunicatorCore& communicator, std::uint32_t sequence);

  // After `stopped`: what is to go on, and what of it is done.
  const Call& call() const { return call_; }
  std::uint32_t first_tile() const;                  ///< all before it are done
  std::uint32_t end_tile() const { return begun_; }  ///< it and all after it are not begun
  std::vector<StepId> done(std::uint32_t tile) const;
  FastLoans take_loans() { return std::exchange(loans_, {}); }
  const ChosenRead& chosen_read() const { return read_; }
  /// A message of a tile that goes on, sent from where it lies (Transfer::land).
  struct Writing {
    std::uint32_t tile = 0;
    StepId send = 0;
    FastLoan loan;
  };
  const std::vector<Writing>& writings() const { return writing_; }  ///< those not seen to be written
  /// Null: it was no such message, or it was seen to be written.
  const Writing* writing(std::uint32_t tile, StepId send) const;
  std::span<const std::byte> scratch(std::uint32_t tile) const {
    return {tiles_[tile % tiles_.size()].placement.scratch, scratch_bytes_};
  }

 private:
  struct Tile {
    Placement placement;
    FlatPlaces places;
  };
  struct Message {
    Rank peer = -1;     // of the world
    bool fast = false;  // it goes or comes by fast messages
    DataHead head;      // then: what it is sent with, or known by
  };
  bool has_lengths_of(std::span<const Tensor> tensors) const {
    return call_.tensors ? std::ranges::equal(*call_.tensors, tensors, {}, &Tensor::count, &Tensor::count)
                         : tensors.empty();
  }
  bool has_buffers_of(std::span<const Tensor> tensors) const {
    const auto same = [](const Tensor& a, const Tensor& b) { return a.in == b.in && a.out == b.out; };
    return call_.tensors ? std::ranges::equal(*call_.tensors, tensors, same) : tensors.empty();
  }
  /// One tile is done before the next begins.
  bool one_by_one() const { return tiling_.depth == 1; }
  std::uint32_t turn_of(std::uint32_t tile, std::uint32_t stage) const;
  std::uint32_t stages() const { return static_cast<std::uint32_t>(steps_.stage_ends.size()); }
  std::uint32_t stage_begin(std::uint32_t stage) const { return stage == 0 ? 0 : steps_.stage_ends[stage - 1]; }
  const Step& step_at(std::uint32_t index) const { return plan_->plan.steps[steps_.order[index]]; }
  std::vector<Message> messages_of(const CommunicatorCore& communicator, const Transfer& transfer) const;
  /// What was right with the same addresses is right again, unless memory of a device may have come to lie there, or
  /// what lay there was copied: for a call that then was not begun, or for one before.
  bool took_these(const Operation& operation, DeviceRuntime* devices) const {
    return taken_ && !call_.owned && operation.in == operation_.in && operation.out == operation_.out &&
           operation.memory == operation_.memory && (devices == nullptr || !devices->looks_up()) &&
           has_buffers_of(operation.tensors);
  }
  bool take_others(const Operation& operation, const CommunicatorCore& communicator, DeviceRuntime* devices);
  void look_up_places(Tile& tile) { tile.places.look_up(steps_, plan_->plan, operands_, tile.placement); }
  bool run_to_end(const FlatEngine& engine, CommunicatorCore& communicator);
  bool run_one_tile(const FlatEngine& engine, CommunicatorCore& communicator);
  bool run_in_turns(const FlatEngine& engine, CommunicatorCore& communicator);
  bool run_stage(const FlatEngine& engine, CommunicatorCore& communicator);
  bool run_next(const FlatEngine& engine, CommunicatorCore& communicator, Tile& tile);
  void run_local(const Tile& tile, const Step& step) const;
  bool send(const FlatEngine& engine, CommunicatorCore& communicator, const Tile& tile);
  bool lend(const FlatEngine& engine, CommunicatorCore& communicator, const Tile& tile);
  bool send_in_time(const FlatEngine& engine, CommunicatorCore& communicator, const Tile& tile);
  bool receive(const FlatEngine& engine, CommunicatorCore& communicator, Tile& tile);
  bool take_kept(const FlatEngine& engine, CommunicatorCore& communicator, const Tile& tile);
  void fold(std::byte* to, std::span<const void* const> sources, std::size_t count) const;
  /// Is the message that is next only copied to where it belongs?
  bool moves() const {
    return step_at(next_).kind == StepKind::recv && steps_.operand_of_next[next_] == FlatSteps::none;
  }
  /// `answer_place`: where what is made of it goes too; null: nowhere.
  void use(const Tile& tile, std::span<const std::byte> payload, std::byte* answer_place = nullptr) const;
  void reduce_to_both(const FlatPlaces::Place& place, std::span<const std::byte> payload,
                      std::byte* answer_place) const;
  void reduce_with(Tile& tile, std::span<const std::byte> payload);
  bool is_answered(const CommunicatorCore& communicator, const Tile& tile) const;
  void answer(const FlatEngine& engine, CommunicatorCore& communicator, const Tile& tile);
  static bool may_send(const CommunicatorCore& communicator, const Step& step);
  void hear_news(const FlatEngine& engine, CommunicatorCore& communicator, Rank member);
  Record record_for(const CommunicatorCore& communicator, std::uint32_t tile, const Step& step,
                    std::size_t bytes) const;
  static void sent(CommunicatorCore& communicator, const Step& step, std::size_t bytes, std::uint32_t consumed);
  bool take_front(const FlatEngine& engine, CommunicatorCore& communicator, const Tile& tile, FastMessage& came) const;
  bool await(const FlatEngine& engine, CommunicatorCore& communicator, const Tile& tile, FastMessage& came);
  bool await_loans(const FlatEngine& engine) const;
  bool await_written(const FlatEngine& engine, std::uint32_t tile);
  void lend_what_is_unwritten(const FlatEngine& engine);

  std::shared_ptr<const PreparedPlan> plan_;
  Call call_;
  Operation operation_;  // with the buffers that it had last, which may be gone; tensors are in call_
  Operands operands_;    // of call_
  Tiling tiling_;
  FlatSteps steps_;
  std::vector<Message> messages_;                // by index in the order of steps_
  std::optional<ReduceKernel> kernel_;           // nothing: the caller's own, or none
  std::vector<Tile> tiles_;                      // tile t is tiles_[t % size]
  std::size_t scratch_bytes_ = 0;                // of a tile
  std::unique_ptr<FlatScratch::Block> scratch_;  // while it runs, and after it stopped
  Signature signature_;
  std::uint32_t sequence_ = 0;
  ChosenRead read_;
  bool taken_ = false;      // the buffers of operation_ are those of call_
  bool looked_up_ = false;  // and the places of an operation of one tile are known
  // Where it is.
  std::uint32_t turn_ = 0;
  std::uint32_t stage_ = 0;
  std::uint32_t next_ = 0;   // in the order of steps_
  std::uint32_t end_ = 0;    // of the stage; where there is one tile, of all
  std::uint32_t begun_ = 0;  // tiles
  FastLoans loans_;
  std::vector<Writing> writing_;
};

}  // namespace fabring

// Before a FlatRun runs: which calls can be run so, what is worked out once for many of them, and the buffers of one.

#include <algorithm>
#include <utility>

#include "runtime/engine/call/call_buffers.hpp"
#include "runtime/engine/flat/flat_run.hpp"
#include "runtime/engine/members/communicator_core.hpp"

namespace fabring {
namespace {

std::size_t longest_message_of(const PreparedPlan& plan, const Operands& operands, const Placement& largest) {
  std::size_t longest = 0;
  for (const Step& step : plan.plan.steps)
    if (step.peer >= 0)
      longest = std::max(longest, operands.bytes_of(largest, step.kind == StepKind::send ? step.from : step.to));
  return longest;
}

}  // namespace

// The peer's messages come in the order sent. With a plan that looks alike from both sides that is the order in which
// this rank takes them if each is received as many stages after its number was sent. One message of each tile that goes
// one way comes in the order of tiles.
bool FlatRun::may_be(const PreparedPlan& plan, const Call& call, const Tiling& tiling) {
  Operands operands(plan, call);
  Placement largest;
  operands.bind(largest, tiling, tiling.largest());
  if (longest_message_of(plan, operands, largest) > tiling.eager_bytes) return false;
  if (tiling.tiles == 1) return true;
  if (call.tensors && tiling.depth == 1) return true;  // tile by tile, as so many operations
  if (plan.plan.size != 2 || call.given) return false;
  std::vector<std::uint32_t> sent, received;
  std::uint32_t stage = 0;
  for (const StepId id : FlatSteps(plan).order) {
    const StepKind kind = plan.plan.steps[id].kind;
    if (receives(kind)) received.push_back(++stage);
    if (kind == StepKind::send) sent.push_back(stage);
  }
  if (sent.size() + received.size() == 1) return true;
  if (sent.empty() || sent.size() != received.size()) return false;
  for (std::size_t i = 0; i < sent.size(); ++i)
    if (received[i] - sent[i] != received[0] - sent[0]) return false;
  return true;
}

FlatRun::FlatRun(std::shared_ptr<const PreparedPlan> plan, Call call, const Operation& operation, const Tiling& tiling,
                 const CommunicatorCore& communicator, const Transfer& transfer)
    : plan_(std::move(plan)),
      call_(std::move(call)),
      operation_(operation),
      operands_(*plan_, call_),
      tiling_(tiling),
      steps_(*plan_),
      tiles_(one_by_one() ? 1 : std::min(tiling_.tiles, stages())),
      signature_(call_.signature()) {
  operation_.tensors = {};
  call_.copy_input();  // nothing else is under way
  messages_ = messages_of(communicator, transfer);
  if (reduces(call_.collective) && call_.op != ReduceOp::user) kernel_.emplace(call_.carried(), call_.op);
  Placement& largest = tiles_[0].placement;
  operands_.bind(largest, tiling_, tiling_.largest());
  scratch_bytes_ = operands_.lay_out_scratch(largest);
}

// Most often it is where it was.
bool FlatRun::take_scratch(FlatScratch& of_all) {
  if (scratch_bytes_ == 0) return true;
  scratch_ = of_all.take(scratch_bytes_ * tiles_.size());
  if (!scratch_) return false;
  if (tiles_[0].placement.scratch == scratch_->data()) return true;
  for (std::size_t i = 0; i < tiles_.size(); ++i) tiles_[i].placement.scratch = scratch_->data() + i * scratch_bytes_;
  looked_up_ = false;
  return true;
}

std::vector<FlatRun::Message> FlatRun::messages_of(const CommunicatorCore& communicator,
                                                   const Transfer& transfer) const {
  std::vector<Message> messages(steps_.order.size());
  for (std::uint32_t i = 0; i < messages.size(); ++i) {
    const Step& step = step_at(i);
    if (step.peer < 0) continue;
    const Record record = record_for(communicator, 0, step, 0);
    const Rank peer = communicator.members[step.peer];
    const bool fast = transfer.is_fast(peer) && fits_fast(record);
    messages[i] = {peer, fast, fast ? DataHead(record) : DataHead()};
  }
  return messages;
}

bool FlatRun::take_others(const Operation& operation, const CommunicatorCore& communicator, DeviceRuntime* devices) {
  looked_up_ = false;
  if (call_.tensors && !has_buffers_of(operation.tensors))
    call_.tensors = std::make_shared<const std::vector<Tensor>>(operation.tensors.begin(), operation.tensors.end());
  taken_ = fabring::take_buffers(call_, operation, communicator, devices).ok() && !call_.device.any();
  if (!taken_) return false;
  call_.copy_input();
  operation_.in = operation.in;
  operation_.out = operation.out;
  operation_.memory = operation.memory;
  return true;
}

bool FlatRun::fits(const Transfer& transfer, const CommunicatorCore& communicator) const {
  return tiling_.tiles == 1 ||
         std::all_of(plan_->peers.begin(), plan_->peers.end(), [&](const PreparedPlan::Peer& peer) {
           return transfer.is_fast(communicator.members[peer.rank]) || transfer.keeps_landings();
         });
}

bool FlatRun::expects_what_came(const CommunicatorCore& communicator, std::uint32_t sequence) const {
  const auto& early = communicator.early;
  for (auto at = early.lower_bound({false, sequence, 0, 0, 0, RecordKind::data});
       at != early.end() && !at->first.point_to_point && at->first.sequence == sequence; ++at) {
    const CommunicatorCore::EarlyKey& came = at->first;
    if (came.kind != RecordKind::data || came.tile >= tiling_.tiles ||
        !same_call(at->second.record.signature, signature_) ||
        std::ranges::none_of(plan_->plan.steps, [&](const Step& step) {
          return receives(step.kind) && step.peer == came.peer && step.message == came.message;
        }))
      return false;
  }
  return true;
}

}  // namespace fabring

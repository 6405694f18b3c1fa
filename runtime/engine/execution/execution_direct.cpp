// Buffers in memory of a device that network cards read and write: messages come from and go to where they are. What a
// plan copies between them, devices copy.

#include <algorithm>
#include <iterator>

#include "runtime/base/copy_bytes.hpp"
#include "runtime/engine/engine_core.hpp"
#include "runtime/engine/execution/execution.hpp"
#include "runtime/engine/members/communicator_core.hpp"

namespace fabring {

// Of the messages from and to the caller's buffers. The first tile of a vector is the shortest, as is the last of
// blocks that are all alike.
Execution::Messages Execution::look_at_messages() const {
  Messages found;
  Placement place;
  const bool all = !call_.counts.empty();
  const std::uint32_t last = tiling_.tiles - 1;
  for (std::uint32_t tile = 0; tile <= last; tile = all || tile == last ? tile + 1 : last) {
    operands_->bind(place, tiling_, tile);
    for (StepId id = 0; id < plan_->plan.steps.size(); ++id) {
      if (plan_->peer_of_step[id] < 0 || message_operand(id).space == Space::scratch) continue;
      const std::size_t bytes = operands_->bytes_of(place, message_operand(id));
      found.large = found.large || bytes > eager_limit_;
      found.small = found.small || (bytes > 0 && bytes <= eager_limit_);
      const Rank peer = world_rank(id);
      if (std::find(found.peers.begin(), found.peers.end(), peer) == found.peers.end()) found.peers.push_back(peer);
    }
  }
  return found;
}

// Directly or staged: all of it in the same way. What is reduced is staged, since the processor does it, and so is what
// travels in records only.
void Execution::choose_path() {
  bounce_of_step_.clear();
  bounces_ = 0;
  // In place, blocks are sent from where others arrive; only staging reads a tile before it writes it.
  const bool crosses = call_.collective == Collective::alltoall && call_.in == call_.out;
  if (reduces(call_.collective) || crosses || delivered_from_ || !delivered_.empty() ||
      engine_->config().gpu_path == "staged")
    return;
  const Messages messages = look_at_messages();
  if (!messages.large) return;
  std::vector<std::shared_ptr<const void>> admitted;
  const auto admit = [&](int device, const std::byte* at, std::size_t bytes) {
    if (device < 0 || bytes == 0) return true;
    auto answer = engine_->devices().admit(messages.peers, {at, bytes});
    if (answer) admitted.push_back(std::move(*answer));
    return answer.has_value();
  };
  const DeviceBuffers& device = call_.device;
  if (!admit(device.in, call_.in, device.in_bytes) || !admit(device.out, call_.out, device.out_bytes)) return;
  held_.insert(held_.end(), std::make_move_iterator(admitted.begin()), std::make_move_iterator(admitted.end()));
  operands_->leave_on_device();
  if (!messages.small) return;
  bounce_of_step_.assign(plan_->plan.steps.size(), 0);
  for (StepId id = 0; id < plan_->plan.steps.size(); ++id)
    if (plan_->peer_of_step[id] >= 0 && operands_->on_device(message_operand(id))) bounce_of_step_[id] = bounces_++;
}

// ---- small messages of a tile that is not staged ------------------------------------------------------------------

// Each has its place in the tile's staging memory, from which records are filled and into which they are emptied.
std::size_t Execution::bounce_bytes() const { return (eager_limit_ + 255) / 256 * 256; }

bool Execution::bounces(const Tile& tile, StepId id) const {
  return !bounce_of_step_.empty() && operands_->on_device(message_operand(id)) && message_bytes(tile, id) > 0;
}

std::byte* Execution::bounce(const Tile& tile, StepId id) const {
  return tile.place.staging + bounce_of_step_[id] * bounce_bytes();
}

// Before it is sent. It runs again when the bytes are here.
void Execution::bring_to_bounce(Tile& tile, StepId id) {
  const auto from = operands_->at(tile.place, message_operand(id));
  copy_list_.assign(1, {bounce(tile, id), from.data(), from.size()});
  post_direct_copy(tile, id, message_operand(id), CopyWay::to_host);
}

// After it was received. The step is done when the device has them.
void Execution::bring_from_bounce(Tile& tile, StepId id, std::span<const std::byte> payload) {
  copy_bytes(bounce(tile, id), payload.data(), payload.size());
  if (!engine_->transfer().is_intact(world_rank(id))) return;
  copy_list_.assign(1, {operands_->at(tile.place, message_operand(id)).data(), bounce(tile, id), payload.size()});
  post_direct_copy(tile, id, message_operand(id), CopyWay::to_device);
}

// Is it a copy that only a device can do? Then it comes back when it is over.
bool Execution::copy_on_device(Tile& tile, StepId id) {
  const Step& step = plan_->plan.steps[id];
  if (step.kind != StepKind::copy || !(operands_->on_device(step.to) || operands_->on_device(step.from))) return false;
  copy_list_.clear();
  operands_->append_copies(tile.place, step.to, step.from, copy_list_);
  if (copy_list_.empty()) return false;
  const bool up = operands_->on_device(step.to);
  post_direct_copy(tile, id, up ? step.to : step.from, up ? CopyWay::to_device : CopyWay::to_host);
  return true;
}

void Execution::post_direct_copy(const Tile& tile, StepId id, const Block& on_device, CopyWay way) {
  ++copies_;
  engine_->devices().copies().post(on_device.space == Space::input ? call_.device.in : call_.device.out, way,
                                   copy_list_, cookie(index_, tile_slot(tile), id));
}

void Execution::direct_copy_done(Tile& tile, StepId id) {
  if (plan_->plan.steps[id].kind == StepKind::send) {
    tile.steps[id].bounced = true;
    make_ready(tile, id);
  } else if (give_back_read(tile, id)) {
    step_done(tile, id);
  }
}

}  // namespace fabring

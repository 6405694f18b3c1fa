// The part of an execution's life that operands in memory of a device have when they stay there. A step is posted to
// the device and done when that is over. What a peer lent is read where it is; what comes to or leaves from the host
// passes through `place`, which has the same layout as what is `there`, and memory once something does.

#include <utility>

#include "runtime/engine/device/device_sharing.hpp"
#include "runtime/engine/device/device_steps.hpp"
#include "runtime/engine/engine_core.hpp"
#include "runtime/engine/execution/execution.hpp"

namespace fabring {

void Execution::run_on_device(Tile& tile, StepId id) {
  const Step& step = plan_->plan.steps[id];
  if (tile.steps[id].early == Early::read) return store_early(tile, id);
  if (tile.steps[id].early != Early::none) return;  // on_device_done goes on, seeing need == 0
  copy_list_.clear();
  const bool moves = step.kind == StepKind::copy && !makes_truth_values(call_, plan_->plan, step);
  if (moves) device_operands_->append_copies(tile.there, step.to, step.from, copy_list_);
  const bool nothing = moves ? copy_list_.empty() : device_operands_->count_of(tile.there, step.to) == 0;
  if (nothing) return on_device_done(tile, id, {});
  post_on_device(tile, id, nullptr);
}

// `incoming`: of a message, where it lies.
void Execution::post_on_device(Tile& tile, StepId id, const std::byte* incoming) {
  const Step& step = plan_->plan.steps[id];
  const auto mirror = operands_->at(tile.place, step.to);
  const bool from_host = step.kind == StepKind::recv && incoming == mirror.data();
  tile.mirrors.forget(mirror);
  if (from_host) tile.mirrors.add(mirror);
  tile.steps[id].lent.reading = tile.steps[id].lent.at != nullptr;
  for (const StepId receive : plan_->last_reader[id])
    tile.steps[receive].lent.reading = tile.steps[receive].lent.at != nullptr;
  const CopyWay way = from_host ? CopyWay::to_device : CopyWay::on_device;
  const int device = call_.device.shared->device;
  ++copies_;
  if (step.kind == StepKind::recv) {
    const auto to = device_operands_->at(tile.there, step.to);
    copy_list_.assign(1, {to.data(), incoming, to.size()});
    return engine_->devices().copies().post_within_reach(device, way, copy_list_, cookie(index_, tile_slot(tile), id));
  }
  const auto post = [&](DeviceQueue& queue) {
    return incoming != nullptr ? post_incoming(queue, call_, *device_operands_, tile.there, step, incoming)
                               : post_local_step(queue, call_, plan_->plan, *device_operands_, tile.there, step);
  };
  engine_->devices().copies().post(device, way, post, cookie(index_, tile_slot(tile), id));
}

void Execution::on_device_done(Tile& tile, StepId id, const Status& status) {
  const Step& step = plan_->plan.steps[id];
  const auto has_read = [&](StepId receive) {
    tile.steps[receive].lent.reading = false;
    if (failed()) (void)give_back(tile, receive);
  };
  has_read(id);
  for (const StepId receive : plan_->last_reader[id]) has_read(receive);
  if (failed()) return;
  if (!status.ok()) return engine_->device_failed(*this, status);
  switch (step.kind) {
    case StepKind::send:
      for (const StepId waiting : tile.mirrors.arrived(id)) run_send(tile, waiting);
      return;
    case StepKind::recv:
      if (!give_back(tile, id)) return;
      break;
    case StepKind::recv_reduce:
      if (!give_back(tile, id)) return;
      if (tile.steps[id].data == Data::on_its_way) {
        tile.steps[id].data = Data::here;
        if (tile.steps[id].need == 0) read_incoming(tile, id);
        return;
      }
      if (std::byte* const slot = std::exchange(tile.steps[id].slot, nullptr); slot != nullptr)
        free_slots_.push_back(slot);
      break;
    case StepKind::reduce:
    case StepKind::copy:
    case StepKind::finish:
      if (!give_back_read(tile, id)) return;
      break;
  }
  if (tile.steps[id].early == Early::reading) {
    tile.steps[id].early = Early::read;
    if (tile.steps[id].need == 0) store_early(tile, id);
    return;
  }
  step_done(tile, id);
}

// ---- results before the sends they wait for -----------------------------------------------------------------------

// The last of them, if sends are still under way: otherwise its reader is about to be ready.
void Execution::operand_came(Tile& tile, StepId receive) {
  const StepId reader = plan_->only_reader[receive];
  if (reader == PreparedPlan::none || !plan_->reads_early[reader]) return;
  if (--tile.steps[reader].operands_to_come == 0 && tile.steps[reader].need > 1 && !failed()) read_early(tile, reader);
}

// Peers have their memory back after one kernel, whatever becomes of what this rank sends. In place the output is being
// sent: the result is put where the first operand would have come to, and stored when the sends are over.
void Execution::read_early(Tile& tile, StepId id) {
  const Step& step = plan_->plan.steps[id];
  if (device_operands_->count_of(tile.there, step.to) == 0) return;
  const auto to = results_aside_
                      ? device_operands_->own_area(tile.there, message_operand(plan_->last_reader[id].front()))
                      : device_operands_->at(tile.there, step.to);
  if (!results_aside_) tile.mirrors.forget(operands_->at(tile.place, step.to));
  for (const StepId receive : plan_->last_reader[id])
    tile.steps[receive].lent.reading = tile.steps[receive].lent.at != nullptr;
  const auto post = [&](DeviceQueue& queue) {
    return post_reduce_to(queue, call_, plan_->plan, *device_operands_, tile.there, step, to.data());
  };
  tile.steps[id].early = Early::reading;
  ++copies_;
  engine_->devices().copies().post(call_.device.shared->device, CopyWay::on_device, post,
                                   cookie(index_, tile_slot(tile), id));
}

// All that it waited for is over.
void Execution::store_early(Tile& tile, StepId id) {
  const Block& to = plan_->plan.steps[id].to;
  if (!results_aside_) return step_done(tile, id);
  tile.steps[id].early = Early::storing;
  tile.mirrors.forget(operands_->at(tile.place, to));
  const auto aside = device_operands_->own_area(tile.there, message_operand(plan_->last_reader[id].front()));
  copy_list_.assign(1, {device_operands_->at(tile.there, to).data(), aside.data(), aside.size()});
  ++copies_;
  engine_->devices().copies().post_within_reach(call_.device.shared->device, CopyWay::on_device, copy_list_,
                                                cookie(index_, tile_slot(tile), id));
}

// ---- through the host ---------------------------------------------------------------------------------------------

// Is what this send sends in the host's memory? If not, it is run again when it is.
bool Execution::mirrored(Tile& tile, StepId id) {
  const Block& from = plan_->plan.steps[id].from;
  const auto mirror = operands_->at(tile.place, from);
  if (mirror.empty()) return true;
  const MirroredRanges::State state = tile.mirrors.find(mirror, id);
  if (state != MirroredRanges::State::absent) return state == MirroredRanges::State::here;
  tile.mirrors.expect(mirror, id);
  copy_list_.assign(1, {mirror.data(), device_operands_->at(tile.there, from).data(), mirror.size()});
  ++copies_;
  engine_->devices().copies().post(call_.device.shared->device, CopyWay::to_host, copy_list_,
                                   cookie(index_, tile_slot(tile), id));
  return false;
}

// A message that its step may use now.
void Execution::came_to_host(Tile& tile, StepId id) {
  const Step& step = plan_->plan.steps[id];
  if (step.kind == StepKind::recv_reduce) return read_incoming(tile, id);
  tile.steps[id].data = Data::here;
  const auto mirror = operands_->at(tile.place, step.to);
  if (!mirror.empty() && !stays_where_it_comes(id)) return post_on_device(tile, id, mirror.data());
  if (!mirror.empty()) tile.there.lent[step.to.scratch] = mirror.data();
  step_done(tile, id);
}

// The message of a recv_reduce: lent, in its slot, or, a small one, where the result is mirrored.
void Execution::read_incoming(Tile& tile, StepId id) {
  tile.steps[id].data = Data::used;
  const auto mirror = operands_->at(tile.place, plan_->plan.steps[id].to);
  if (mirror.empty()) return on_device_done(tile, id, {});
  const std::byte* const incoming = tile.steps[id].lent.at != nullptr ? tile.steps[id].lent.at
                                    : tile.steps[id].slot != nullptr  ? tile.steps[id].slot
                                                                      : mirror.data();
  post_on_device(tile, id, incoming);
}

// A message that its only reader reads where it lies.
bool Execution::stays_where_it_comes(StepId receive) const {
  const StepId reader = plan_->only_reader[receive];
  return plan_->may_stay[receive] || (reader != PreparedPlan::none && plan_->reads_early[reader]);
}

}  // namespace fabring

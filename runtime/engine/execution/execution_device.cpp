// The part of an execution's life that only buffers in memory of a device have. Nothing here waits, and nothing of ours
// is ever queued on a device behind work of the caller's: the copies begin when the caller's stream has come that far.

#include <algorithm>

#include "runtime/base/copy_bytes.hpp"
#include "runtime/engine/device/device_sharing.hpp"
#include "runtime/engine/device/device_steps.hpp"
#include "runtime/engine/engine_core.hpp"
#include "runtime/engine/execution/execution.hpp"
#include "runtime/engine/members/communicator_core.hpp"

namespace fabring {
namespace {

// Copies have a step's place in the cookie; plans are never so long.
constexpr StepId load_step = 0xfffffffe;
constexpr StepId store_step = 0xffffffff;

}  // namespace

bool Execution::wait_for_stream() {
  // A message to oneself: both sides have a stream.
  for (const Call* call : {static_cast<const Call*>(&call_), delivered_from_ ? &delivered_from_->call() : nullptr}) {
    if (call == nullptr || !call->device.ready) continue;
    const auto reached = call->device.ready->reached();
    if (!reached) {
      waits_for_stream_ = false;
      engine_->device_failed(*this, reached.error().with_prefix("work that the stream was given before: "));
      return false;
    }
    if (!*reached) return false;
  }
  waits_for_stream_ = false;
  if (delivered_from_) {
    copy_delivered();
  } else {
    start_tiles();
  }
  return true;
}

void Execution::post_copies(std::uint32_t tile_slot, CopyWay way, StepId step) {
  const int device = way == CopyWay::to_host ? call_.device.in : call_.device.out;
  const std::uint64_t context = cookie(index_, tile_slot, step);
  ++copies_;
  if (engine_->devices().is_pinned(tiles_[tile_slot]->place.staging)) {
    engine_->devices().copies().post_within_reach(device, way, copy_list_, context);
  } else {
    engine_->devices().copies().post(device, way, copy_list_, context);
  }
}

// The whole message at once: its staging is the other side.
void Execution::copy_delivered() {
  const Call& from = delivered_from_->call();
  copy_list_.assign(1, {call_.out, from.in, call_.bytes()});
  const bool to_device = call_.device.out >= 0;
  ++copies_;
  engine_->devices().copies().post(to_device ? call_.device.out : from.device.in,
                                   to_device ? CopyWay::to_device : CopyWay::to_host, copy_list_,
                                   cookie(index_, 0, store_step));
}

// The copies are one more step, before all others: none of them is ready until they are over. Slots for what comes are
// granted meanwhile.
bool Execution::load(Tile& tile) {
  copy_list_.clear();
  if (on_device_) {
    if (!device_operands_->scales()) return false;
    for (StepId id : plan_->first_steps) ++tile.steps[id].need;
    ++copies_;
    engine_->devices().copies().post(
        call_.device.shared->device, CopyWay::on_device,
        [&](DeviceQueue& queue) { return post_scaling(queue, call_, *device_operands_, tile.there); },
        cookie(index_, tile_slot(tile), load_step));
    return true;
  }
  operands_->append_loads(tile.place, copy_list_);
  if (copy_list_.empty()) return false;
  for (StepId id : plan_->first_steps) ++tile.steps[id].need;
  post_copies(tile_slot(tile), CopyWay::to_host, load_step);
  return true;
}

void Execution::loaded(Tile& tile) {
  if (!on_device_) operands_->bring_in(tile.place);
  for (auto at = plan_->first_steps.rbegin(); at != plan_->first_steps.rend(); ++at)
    if (--tile.steps[*at].need == 0) make_ready(tile, *at);
}

bool Execution::store(Tile& tile) {
  if (on_device_) return false;  // it is there
  if (tile.stored) {
    tile.stored = false;
    return false;
  }
  copy_list_.clear();
  operands_->append_stores(tile.place, copy_list_);
  if (copy_list_.empty()) return false;
  post_copies(tile_slot(tile), CopyWay::to_device, store_step);
  return true;
}

// A receive of a small message: it is here, only not where it belongs.
void Execution::take_delivered(Tile& tile) {
  copy_list_.clear();
  operands_->append_stores(tile.place, copy_list_);
  std::size_t at = tile.place.begin * size_of(call_.type);
  for (const DeviceCopy& copy : copy_list_) {
    copy_bytes(const_cast<std::byte*>(copy.from), delivered_.data() + at, copy.bytes);
    at += copy.bytes;
  }
  steps_done_ += tile.remaining;
  tile.remaining = 0;
}

void Execution::on_copied(std::uint32_t tile_slot, StepId step, const Status& status) {
  --copies_;
  if (on_device_ && step != load_step) return on_device_done(*tiles_[tile_slot], step, status);
  if (failed()) return;
  if (!status.ok()) return engine_->device_failed(*this, status);
  if (delivered_from_) {
    tiles_left_ = 0;
    return;
  }
  Tile& tile = *tiles_[tile_slot];
  if (step == load_step) return loaded(tile);
  if (step != store_step) return direct_copy_done(tile, step);
  tile.stored = true;
  finish_tile(tile);
}

}  // namespace fabring

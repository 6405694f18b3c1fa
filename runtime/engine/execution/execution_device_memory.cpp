// The memory that an execution has whose operands stay on a device: scratch there, what cards may reach of it, and
// mirrors: what stands for a tile in memory of the host, taken once something of it passes through the host.

#include <algorithm>

#include "runtime/engine/device/device_sharing.hpp"
#include "runtime/engine/engine_core.hpp"
#include "runtime/engine/execution/execution.hpp"
#include "runtime/engine/members/communicator_core.hpp"

namespace fabring {
namespace {

constexpr std::size_t most_device_slots = 8;
constexpr std::size_t mirror_alignment = 256;

// Where a mirror would be that nobody has needed yet: whoever touches it crashes.
std::byte* no_memory() { return reinterpret_cast<std::byte*>(std::uintptr_t{1} << 44); }

// Does the plan write to scratch anything but messages that are read once, where they come?
bool computes_in_scratch(const PreparedPlan& prepared) {
  std::size_t only_read = 0;
  for (const auto& receives : prepared.last_reader) only_read += receives.size();
  return only_read < prepared.plan.scratch.size();
}

bool overlap(const Call& call) {
  return call.in < call.out + call.device.out_bytes && call.out < call.in + call.device.in_bytes;
}

}  // namespace

// All that it needs, now, or later, when others of its communicator have given back what they hold: through the host it
// would take many times as long. A message must not wait for collectives, which the other rank may call after it: it is
// promised what it will hardly need. What can never stay there is staged like any other.
Execution::Stay Execution::stay_on_device() {
  on_device_ = false;
  if (!call_.device.shared || !delivered_.empty() || delivered_from_) return Stay::no;
  const auto near = [this](Rank member) {
    return engine_->devices().shares_memory_with(communicator_->members[static_cast<std::size_t>(member)]);
  };
  if (why_staged(*plan_, call_, tiling_, eager_limit_, near)) return Stay::no;
  const std::size_t large = lay_out();
  mirror_scratch_ = (staging_bytes_ + mirror_alignment - 1) / mirror_alignment * mirror_alignment;
  staging_bytes_ = mirror_scratch_ + area_bytes_;
  device_operands_ = std::make_unique<Operands>(*plan_, call_, Operands::View::device);
  Placement largest;
  device_operands_->bind(largest, tiling_, 0);
  device_area_bytes_ = device_operands_->lay_out_scratch(largest);
  std::vector<Rank> far;
  for (const Step& step : plan_->plan.steps)
    if (step.peer >= 0 && !near(step.peer)) far.push_back(communicator_->members[static_cast<std::size_t>(step.peer)]);
  std::sort(far.begin(), far.end());
  far.erase(std::unique(far.begin(), far.end()), far.end());
  admitted_ =
      !far.empty() && admit(far, call_.in, call_.device.in_bytes) && admit(far, call_.out, call_.device.out_bytes);
  results_aside_ = overlap(call_) &&
                   std::find(plan_->reads_early.begin(), plan_->reads_early.end(), true) != plan_->reads_early.end();
  // What comes from a card needs a place there.
  if (!device_operands_->scales() && !computes_in_scratch(*plan_) && !admitted_ && !results_aside_)
    device_area_bytes_ = 0;
  if (plan_->plan.size == 1) staging_bytes_ = 0;
  const std::size_t least = slot_bytes_ * std::min<std::size_t>(large, 1) + staging_bytes_;
  const bool possible = least <= engine_->devices().staging().budget();
  for (std::uint32_t depth = std::min(tiling_.depth + 2, tiling_.tiles); depth > 0 && possible && !on_device_; --depth)
    on_device_ = borrow_for_device(depth, std::min({large * depth, most_device_slots, std::size_t{depth} * 2}), false);
  if (possible && !on_device_) {
    if (!communicator_->active.empty() && !point_to_point()) {
      device_operands_.reset();
      return Stay::later;
    }
    on_device_ = borrow_for_device(1, std::min<std::size_t>(large, 1), true);
  }
  if (on_device_) {
    scratch_admitted_ = admitted_ && device_area_bytes_ > 0;
    for (const auto& tile : tiles_)
      scratch_admitted_ = scratch_admitted_ && admit(far, tile->scratch_there.at, device_area_bytes_);
    return Stay::yes;
  }
  device_operands_.reset();
  if (!possible) engine_->devices().cannot_mirror(least);
  return Stay::no;
}

// Otherwise what goes to and comes from ranks of other hosts passes through memory of the host.
bool Execution::admit(const std::vector<Rank>& far, const std::byte* at, std::size_t bytes) {
  if (bytes == 0) return true;
  auto answer = engine_->devices().admit(far, {at, bytes});
  if (answer) held_.push_back(std::move(*answer));
  return answer.has_value();
}

// Where the message of this step lies on the device, if a card may reach it there; empty if not. What a peer lent is
// none of this rank's to register.
std::span<std::byte> Execution::admitted_operand(const Tile& tile, StepId id) const {
  const Block& operand = message_operand(id);
  if (!on_device_ || !admitted_ || engine_->devices().shares_memory_with(world_rank(id))) return {};
  if (operand.space == Space::scratch && tile.there.lent[operand.scratch] != nullptr) return {};
  const bool in_scratch =
      operand.space == Space::scratch || (operand.space == Space::input && device_operands_->scales());
  if (in_scratch && !scratch_admitted_) return {};
  return device_operands_->at(tile.there, operand);
}

// Mirrors are promised for all tiles where they are likely to be needed: otherwise they would be others' operations'.
bool Execution::borrow_for_device(std::uint32_t depth, std::size_t slots, bool beyond_budget) {
  const int device = call_.device.shared->device;
  const auto readers = plan_->plan.size == 1 ? DeviceScratch::Readers::none : DeviceScratch::Readers::peers;
  for (std::byte* slot = nullptr; slots_.size() < slots; slots_.push_back(slot))
    if (slot = engine_->devices().borrow_pinned(slot_bytes_, beyond_budget); slot == nullptr) break;
  bool enough = slots_.size() == slots;
  for (std::uint32_t i = 0; i < depth && enough; ++i) {
    auto tile = std::make_unique<Tile>();
    tile->place.staging = no_memory();
    tile->place.scratch = tile->place.staging + mirror_scratch_;
    if (device_area_bytes_ > 0)
      tile->scratch_there = engine_->devices().borrow_scratch(device, device_area_bytes_, beyond_budget, readers);
    tile->there.scratch = tile->scratch_there.at;
    enough = device_area_bytes_ == 0 || tile->there.scratch != nullptr;
    tiles_.push_back(std::move(tile));
  }
  const std::uint32_t mirrors = staging_bytes_ == 0 ? 0 : engine_->devices().needs_mirrors() ? depth : 1;
  while (enough && promised_mirrors_ < mirrors &&
         engine_->devices().staging().promise(staging_bytes_, beyond_budget && promised_mirrors_ == 0))
    ++promised_mirrors_;
  if (!enough || (mirrors > 0 && promised_mirrors_ == 0)) {
    give_back_for_device();
    slots_.clear();
    tiles_.clear();
    return false;
  }
  tiling_.depth = depth;
  free_slots_ = slots_;
  return true;
}

void Execution::give_back_for_device() {
  for (std::byte* slot : slots_) engine_->devices().staging().give_back(slot, slot_bytes_);
  for (auto& tile : tiles_) {
    if (tile->has_mirror) leave_mirror(*tile);
    if (tile->there.scratch != nullptr)
      engine_->devices().scratch().give_back(call_.device.shared->device, tile->scratch_there);
  }
  for (std::byte* mirror : free_mirrors_) engine_->devices().staging().give_back(mirror, staging_bytes_);
  for (; promised_mirrors_ > 0; --promised_mirrors_) engine_->devices().staging().release_promise(staging_bytes_);
  free_mirrors_.clear();
}

// The last one is for the oldest tile: of all ranks' tiles the oldest can then always go on, so nobody waits in a
// circle.
bool Execution::may_have_mirror(const Tile& tile) const {
  const std::size_t free = promised_mirrors_ + free_mirrors_.size();
  if (free != 1) return free > 1;
  const Tile* oldest = &tile;
  for (const auto& other : tiles_)
    if (other->active && other->index() < oldest->index()) oldest = other.get();
  return oldest == &tile || oldest->has_mirror;
}

// False: not now; the step must be tried again.
bool Execution::take_mirror(Tile& tile) {
  if (tile.has_mirror) return true;
  if (failed() || !may_have_mirror(tile)) return false;
  if (free_mirrors_.empty()) {
    std::byte* const block = engine_->devices().keep_pinned_promise(staging_bytes_);
    if (block == nullptr) {
      engine_->device_failed(*this, Status(ErrorCode::out_of_memory, "this machine has no more pinned memory"));
      return false;
    }
    --promised_mirrors_;
    free_mirrors_.push_back(block);
  }
  tile.has_mirror = true;
  took_mirror_ = true;
  engine_->devices().needs_mirrors(true);
  tile.place.staging = free_mirrors_.back();
  tile.place.scratch = tile.place.staging + mirror_scratch_;
  free_mirrors_.pop_back();
  return true;
}

void Execution::leave_mirror(Tile& tile) {
  free_mirrors_.push_back(tile.place.staging);
  tile.place.staging = no_memory();
  tile.place.scratch = tile.place.staging + mirror_scratch_;
  tile.has_mirror = false;
  look_again_ = true;
}

}  // namespace fabring

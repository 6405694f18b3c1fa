// The memory of the host that an execution borrows before it starts, and gives back: scratch of its tiles, slots for
// what it reduces as it comes, and staging memory for what lies on a device.

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/settings.hpp"
#include "runtime/engine/engine_core.hpp"
#include "runtime/engine/execution/execution.hpp"
#include "runtime/engine/members/communicator_core.hpp"

namespace fabring {
namespace {

// Slots in all: enough to keep both directions busy, few enough to stay in the second-level cache.
constexpr std::size_t most_slots = 8;

}  // namespace

// All that it needs or nothing. The first operation of a communicator gets the least it can run with also beyond the
// budget: two communicators that wait for each other's scratch on different ranks would wait for ever. So does a
// message, which must not wait for collectives that the other rank may call after it. Nor could communicators take
// turns in an order that all ranks know: a rank may have begun an operation of one, and wait in a call of another for a
// rank that begins the first only afterwards. So the engine holds at most its budget, one such least for every
// communicator with operations under way, and one for every message of what a device holds.
Execution::Start Execution::reserve() {
  const Stay stay = stay_on_device();
  if (stay != Stay::no) return stay == Stay::yes ? Start::started : Start::wait;
  if (call_.device.any()) choose_path();
  const std::size_t large = lay_out();
  if (!bounce_of_step_.empty()) staging_bytes_ = bounces_ * bounce_bytes();
  // While as many tiles as usual communicate, one is copied in and one out.
  const std::uint32_t wanted = staging_bytes_ > 0 ? tiling_.depth + 2 : tiling_.depth;
  for (std::uint32_t depth = std::min(wanted, tiling_.tiles); depth > 0; --depth)
    if (borrow(depth, std::min({large * depth, most_slots, std::size_t{depth} * 2}), false)) return Start::started;
  if (!communicator_->active.empty() && !point_to_point()) return Start::wait;
  // Connections leave less than that, which is no reason to refuse.
  const std::size_t allowed = scratch_budget(engine_->config());
  const bool possible = slot_bytes_ + area_bytes_ <= allowed;
  if (possible && borrow(1, std::min<std::size_t>(large, 1), true)) return Start::started;
  failure_ = Status(ErrorCode::out_of_memory,
                    fmt::format("{} needs blocks of {} bytes of scratch and {} more, but {}", call_.describe(),
                                slot_bytes_, area_bytes_,
                                possible ? std::string("this machine has no more memory")
                                         : fmt::format("FABRING_SCRATCH_BYTES allows {} in all; raise it or lower "
                                                       "FABRING_SEGMENT_BYTES",
                                                       allowed)));
  return Start::failed;
}

// How much the largest tile needs; how many recv_reduce messages of a tile need a slot.
std::size_t Execution::lay_out() {
  Placement largest;
  operands_->bind(largest, tiling_, tiling_.largest());
  area_bytes_ = operands_->lay_out_scratch(largest);
  staging_bytes_ = operands_->lay_out_staging(largest);
  slot_bytes_ = 0;
  std::size_t large = 0;
  for (StepId id : plan_->slot_receives) {
    const std::size_t bytes = operands_->bytes_of(largest, plan_->plan.steps[id].to);
    if (bytes <= eager_limit_) continue;
    slot_bytes_ = std::max(slot_bytes_, bytes);
    ++large;
  }
  return large;
}

bool Execution::borrow(std::uint32_t depth, std::size_t slots, bool beyond_budget) {
  Scratch& scratch = engine_->scratch();
  std::vector<std::byte*> areas, stagings;
  while (slots_.size() < slots) {
    std::byte* slot = scratch.borrow(slot_bytes_, beyond_budget);
    if (slot == nullptr) break;
    slots_.push_back(slot);
  }
  while (area_bytes_ > 0 && areas.size() < depth) {
    std::byte* area = scratch.borrow(area_bytes_, beyond_budget);
    if (area == nullptr) break;
    areas.push_back(area);
  }
  while (staging_bytes_ > 0 && stagings.size() < depth) {
    std::byte* staging = engine_->devices().staging().borrow(staging_bytes_, beyond_budget);
    if (staging == nullptr) break;
    stagings.push_back(staging);
  }
  if (slots_.size() < slots || (area_bytes_ > 0 && areas.size() < depth) ||
      (staging_bytes_ > 0 && stagings.size() < depth)) {
    for (std::byte* staging : stagings) engine_->devices().staging().give_back(staging, staging_bytes_);
    for (std::byte* slot : slots_) scratch.give_back(slot, slot_bytes_);
    for (std::byte* area : areas) scratch.give_back(area, area_bytes_);
    slots_.clear();
    return false;
  }
  tiling_.depth = depth;
  free_slots_ = slots_;
  for (std::uint32_t i = 0; i < depth; ++i) {
    tiles_.push_back(std::make_unique<Tile>());
    if (area_bytes_ > 0) tiles_.back()->place.scratch = areas[i];
    if (staging_bytes_ > 0) tiles_.back()->place.staging = stagings[i];
  }
  return true;
}

void Execution::give_back_scratch() {
  for (std::byte* slot : slots_) engine_->scratch().give_back(slot, slot_bytes_);
  for (auto& tile : tiles_)
    if (tile->place.scratch != nullptr) engine_->scratch().give_back(tile->place.scratch, area_bytes_);
  for (auto& tile : tiles_)
    if (tile->place.staging != nullptr) engine_->devices().staging().give_back(tile->place.staging, staging_bytes_);
}

}  // namespace fabring

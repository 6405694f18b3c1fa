// The part of an execution's life that operands in memory of a device have when they stay there. A step is posted to
// the device and done when that is over. What a peer lent is read where it is; what comes to or leaves from the host
// passes through `place`, which has the same layout as what is `there`, and memory once something does.

#include <algorithm>
#include <utility>

#include "runtime/engine/communicator_core.hpp"
#include "runtime/engine/device_sharing.hpp"
#include "runtime/engine/device_steps.hpp"
#include "runtime/engine/device_ticket.hpp"
#include "runtime/engine/engine_core.hpp"
#include "runtime/engine/execution.hpp"

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

// ---- memory -------------------------------------------------------------------------------------------------------

// All that it needs, now; otherwise it is staged like any other.
bool Execution::stay_on_device() {
  on_device_ = false;
  if (!call_.device.shared || !delivered_.empty() || delivered_from_) return false;
  const auto near = [this](Rank member) {
    return engine_->shares_device_memory_with(communicator_->members[static_cast<std::size_t>(member)]);
  };
  if (why_staged(*plan_, call_, tiling_, eager_limit_, near)) return false;
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
  for (std::uint32_t depth = std::min(tiling_.depth + 2, tiling_.tiles); depth > 0 && !on_device_; --depth)
    on_device_ = borrow_for_device(depth, std::min({large * depth, most_device_slots, std::size_t{depth} * 2}));
  if (on_device_) {
    scratch_admitted_ = admitted_ && device_area_bytes_ > 0;
    for (const auto& tile : tiles_)
      scratch_admitted_ = scratch_admitted_ && admit(far, tile->scratch_there.at, device_area_bytes_);
    return true;
  }
  device_operands_.reset();
  if (engine_->staging().lent() == 0)
    engine_->cannot_mirror(slot_bytes_ * std::min<std::size_t>(large, 1) + staging_bytes_);
  return false;
}

// Otherwise what goes to and comes from ranks of other hosts passes through memory of the host.
bool Execution::admit(const std::vector<Rank>& far, const std::byte* at, std::size_t bytes) {
  if (bytes == 0) return true;
  auto answer = engine_->admit_device_memory(far, {at, bytes});
  if (answer) held_.push_back(std::move(*answer));
  return answer.has_value();
}

// Where the message of this step lies on the device, if a card may reach it there; empty if not. What a peer lent is
// none of this rank's to register.
std::span<std::byte> Execution::admitted_operand(const Tile& tile, StepId id) const {
  const Block& operand = message_operand(id);
  if (!on_device_ || !admitted_ || engine_->shares_device_memory_with(world_rank(id))) return {};
  if (operand.space == Space::scratch && tile.there.lent[operand.scratch] != nullptr) return {};
  const bool in_scratch =
      operand.space == Space::scratch || (operand.space == Space::input && device_operands_->scales());
  if (in_scratch && !scratch_admitted_) return {};
  return device_operands_->at(tile.there, operand);
}

bool Execution::borrow_for_device(std::uint32_t depth, std::size_t slots) {
  const int device = call_.device.shared->device;
  for (std::byte* slot = nullptr; slots_.size() < slots; slots_.push_back(slot))
    if (slot = engine_->borrow_pinned(slot_bytes_); slot == nullptr) break;
  bool enough = slots_.size() == slots;
  for (std::uint32_t i = 0; i < depth && enough; ++i) {
    auto tile = std::make_unique<Tile>();
    tile->place.staging = no_memory();
    tile->place.scratch = tile->place.staging + mirror_scratch_;
    if (device_area_bytes_ > 0) tile->scratch_there = engine_->device_scratch().borrow(device, device_area_bytes_);
    tile->there.scratch = tile->scratch_there.at;
    enough = device_area_bytes_ == 0 || tile->there.scratch != nullptr;
    tiles_.push_back(std::move(tile));
  }
  while (enough && promised_mirrors_ < depth && engine_->staging().promise(staging_bytes_)) ++promised_mirrors_;
  if (!enough || promised_mirrors_ == 0) {
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
  for (std::byte* slot : slots_) engine_->staging().give_back(slot, slot_bytes_);
  for (auto& tile : tiles_) {
    if (tile->has_mirror) leave_mirror(*tile);
    if (tile->there.scratch != nullptr)
      engine_->device_scratch().give_back(call_.device.shared->device, tile->scratch_there);
  }
  for (std::byte* mirror : free_mirrors_) engine_->staging().give_back(mirror, staging_bytes_);
  for (; promised_mirrors_ > 0; --promised_mirrors_) engine_->staging().release_promise(staging_bytes_);
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
    std::byte* const block = engine_->keep_pinned_promise(staging_bytes_);
    if (block == nullptr) {
      engine_->device_failed(*this, Status(ErrorCode::out_of_memory, "this machine has no more pinned memory"));
      return false;
    }
    --promised_mirrors_;
    free_mirrors_.push_back(block);
  }
  tile.has_mirror = true;
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
  mirror_left_ = true;
}

// ---- steps --------------------------------------------------------------------------------------------------------

void Execution::run_on_device(Tile& tile, StepId id) {
  const Step& step = plan_->plan.steps[id];
  if (tile.early[id] == Early::read) return store_early(tile, id);
  if (tile.early[id] != Early::none) return;  // on_device_done goes on, seeing need == 0
  copy_list_.clear();
  if (step.kind == StepKind::copy) device_operands_->append_copies(tile.there, step.to, step.from, copy_list_);
  const bool nothing =
      step.kind == StepKind::copy ? copy_list_.empty() : device_operands_->count_of(tile.there, step.to) == 0;
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
  tile.lent[id].reading = tile.lent[id].at != nullptr;
  for (const StepId receive : plan_->last_reader[id]) tile.lent[receive].reading = tile.lent[receive].at != nullptr;
  const CopyWay way = from_host ? CopyWay::to_device : CopyWay::on_device;
  const int device = call_.device.shared->device;
  ++copies_;
  if (step.kind == StepKind::recv) {
    const auto to = device_operands_->at(tile.there, step.to);
    copy_list_.assign(1, {to.data(), incoming, to.size()});
    return engine_->copies().post_within_reach(device, way, copy_list_, cookie(index_, tile_slot(tile), id));
  }
  const auto post = [&](DeviceQueue& queue) {
    return incoming != nullptr ? post_incoming(queue, call_, *device_operands_, tile.there, step, incoming)
                               : post_local_step(queue, call_, plan_->plan, *device_operands_, tile.there, step);
  };
  engine_->copies().post(device, way, post, cookie(index_, tile_slot(tile), id));
}

// ---- results before the sends they wait for -----------------------------------------------------------------------

// The last of them, if sends are still under way: otherwise its reader is about to be ready.
void Execution::operand_came(Tile& tile, StepId receive) {
  const StepId reader = plan_->only_reader[receive];
  if (reader == PreparedPlan::none || !plan_->reads_early[reader]) return;
  if (--tile.operands_to_come[reader] == 0 && tile.need[reader] > 1 && !failed()) read_early(tile, reader);
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
  for (const StepId receive : plan_->last_reader[id]) tile.lent[receive].reading = tile.lent[receive].at != nullptr;
  const auto post = [&](DeviceQueue& queue) {
    return post_reduce_to(queue, call_, plan_->plan, *device_operands_, tile.there, step, to.data());
  };
  tile.early[id] = Early::reading;
  ++copies_;
  engine_->copies().post(call_.device.shared->device, CopyWay::on_device, post, cookie(index_, tile_slot(tile), id));
}

// All that it waited for is over.
void Execution::store_early(Tile& tile, StepId id) {
  const Block& to = plan_->plan.steps[id].to;
  if (!results_aside_) return step_done(tile, id);
  tile.early[id] = Early::storing;
  tile.mirrors.forget(operands_->at(tile.place, to));
  const auto aside = device_operands_->own_area(tile.there, message_operand(plan_->last_reader[id].front()));
  copy_list_.assign(1, {device_operands_->at(tile.there, to).data(), aside.data(), aside.size()});
  ++copies_;
  engine_->copies().post_within_reach(call_.device.shared->device, CopyWay::on_device, copy_list_,
                                      cookie(index_, tile_slot(tile), id));
}

void Execution::on_device_done(Tile& tile, StepId id, const Status& status) {
  const Step& step = plan_->plan.steps[id];
  const auto has_read = [&](StepId receive) {
    tile.lent[receive].reading = false;
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
      if (tile.data[id] == Data::on_its_way) {
        tile.data[id] = Data::here;
        if (tile.need[id] == 0) read_incoming(tile, id);
        return;
      }
      if (std::byte* const slot = std::exchange(tile.slot[id], nullptr); slot != nullptr) free_slots_.push_back(slot);
      break;
    case StepKind::reduce:
    case StepKind::copy:
    case StepKind::finish:
      if (!give_back_read(tile, id)) return;
      break;
  }
  if (tile.early[id] == Early::reading) {
    tile.early[id] = Early::read;
    if (tile.need[id] == 0) store_early(tile, id);
    return;
  }
  step_done(tile, id);
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
  engine_->copies().post(call_.device.shared->device, CopyWay::to_host, copy_list_,
                         cookie(index_, tile_slot(tile), id));
  return false;
}

// A message that its step may use now.
void Execution::came_to_host(Tile& tile, StepId id) {
  const Step& step = plan_->plan.steps[id];
  if (step.kind == StepKind::recv_reduce) return read_incoming(tile, id);
  tile.data[id] = Data::here;
  const auto mirror = operands_->at(tile.place, step.to);
  if (!mirror.empty() && !stays_where_it_comes(id)) return post_on_device(tile, id, mirror.data());
  if (!mirror.empty()) tile.there.lent[step.to.scratch] = mirror.data();
  step_done(tile, id);
}

// The message of a recv_reduce: lent, in its slot, or, a small one, where the result is mirrored.
void Execution::read_incoming(Tile& tile, StepId id) {
  tile.data[id] = Data::used;
  const auto mirror = operands_->at(tile.place, plan_->plan.steps[id].to);
  if (mirror.empty()) return on_device_done(tile, id, {});
  const std::byte* const incoming = tile.lent[id].at != nullptr ? tile.lent[id].at
                                    : tile.slot[id] != nullptr  ? tile.slot[id]
                                                                : mirror.data();
  post_on_device(tile, id, incoming);
}

// A message that its only reader reads where it lies.
bool Execution::stays_where_it_comes(StepId receive) const {
  const StepId reader = plan_->only_reader[receive];
  return plan_->may_stay[receive] || (reader != PreparedPlan::none && plan_->reads_early[reader]);
}

// ---- from device to device ----------------------------------------------------------------------------------------

void Execution::post_ticket(Tile& tile, StepId id, Slot slot) {
  const auto from = device_operands_->at(tile.there, plan_->plan.steps[id].from);
  const SharedBuffers& shared = *call_.device.shared;
  const auto lies_in = [&](const std::byte* begin, std::size_t bytes) {
    return from.data() >= begin && from.data() < begin + bytes;
  };
  DeviceTicket ticket;
  ticket.bytes = from.size();
  if (lies_in(call_.in, call_.device.in_bytes)) {
    ticket.facts = shared.in;
    ticket.facts.offset += static_cast<std::uint64_t>(from.data() - call_.in);
  } else if (lies_in(call_.out, call_.device.out_bytes)) {
    ticket.facts = shared.out;
    ticket.facts.offset += static_cast<std::uint64_t>(from.data() - call_.out);
  } else {
    ticket.facts = tile.scratch_there.facts;
    ticket.facts.offset += static_cast<std::uint64_t>(from.data() - tile.scratch_there.at);
  }
  const auto handed = engine_->handed_pieces().hand_over(world_rank(id), ticket.facts);
  ticket.handed = handed.value_or(0);
  // As many loans are out as there can be, and who has them may be waiting for this one.
  const Post post = !handed ? Post::again
                            : engine_->transfer().send_ticket(world_rank(id), slot, ticket.as_bytes(), from.size(),
                                                              cookie(index_, tile_slot(tile), id));
  if (post == Post::again) {
    tile.in_full[id] = true;
    return post_send(tile, id, slot);
  }
  tile.granted[id] = 0;
  tile.waiting[id] = false;
  now_outstanding(id);
}

void Execution::on_ticket(std::uint32_t tile_slot, StepId id, std::span<const std::byte> bytes, std::uint32_t loan) {
  Tile& tile = *tiles_[tile_slot];
  --outstanding_;
  --outstanding_per_peer_[plan_->peer_of_step[id]];
  const Rank peer = world_rank(id);
  if (failed()) return engine_->transfer().refuse(peer, loan);
  tile.only_ticket[id] = false;
  engine_->sends_in_full(peer, false);
  const auto ticket = DeviceTicket::read(bytes, message_bytes(tile, id));
  if (!ticket || (ticket->facts.base + ticket->facts.offset) % size_of(call_.type) != 0) {
    engine_->transfer().refuse(peer, loan);
    return engine_->suspect(peer,
                            Status(ErrorCode::transport_error, "it lent memory of a GPU in a way that makes no sense"));
  }
  auto opened = engine_->handed_pieces().open(peer, call_.device.shared->device, *ticket);
  if (opened) {
    tile.lent[id] = {opened->get(), loan, false, *opened};
    return use_ticket(tile, id);
  }
  engine_->transfer().refuse(peer, loan);
  if (opened.error().code() == ErrorCode::device_error)
    return engine_->device_failed(*this, opened.error().with_prefix("reading memory that a peer lent: "));
  if (opened.error().code() != ErrorCode::unavailable) engine_->cannot_open(peer, opened.error());
  tile.in_full[id] = true;
  tile.data[id] = Data::none;
  if (plan_->plan.steps[id].kind == StepKind::recv) return run_recv(tile, id);
  tile.data[id] = Data::to_grant;
  run_recv_reduce(tile, id);
}

// A loan that would have to wait for this rank's own sends is copied at once: its owner may be waiting for it.
void Execution::use_ticket(Tile& tile, StepId id) {
  const Step& step = plan_->plan.steps[id];
  Tile::Lent& lent = tile.lent[id];
  tile.data[id] = Data::here;
  if (step.kind == StepKind::recv && stays_where_it_comes(id)) {
    tile.there.lent[step.to.scratch] = lent.at;
    return step_done(tile, id);
  }
  if (step.kind == StepKind::recv) return post_on_device(tile, id, lent.at);
  if (tile.need[id] == 0) return read_incoming(tile, id);
  if (plan_->may_stay[id]) return;
  tile.data[id] = Data::on_its_way;
  lent.reading = true;
  copy_list_.assign(1, {tile.slot[id], lent.at, message_bytes(tile, id)});
  ++copies_;
  engine_->copies().post(call_.device.shared->device, CopyWay::to_host, copy_list_,
                         cookie(index_, tile_slot(tile), id));
}

}  // namespace fabring

#include "runtime/engine/execution.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "collectives/reduce/reduce.hpp"
#include "runtime/base/check.hpp"
#include "runtime/engine/communicator_core.hpp"
#include "runtime/engine/engine_core.hpp"

namespace fabring {
namespace {

constexpr std::size_t cache_line = 64;
// Slots in all: enough to keep both directions busy, few enough to stay in the second-level cache.
constexpr std::size_t most_slots = 8;

std::size_t rounded(std::size_t bytes) { return (bytes + cache_line - 1) / cache_line * cache_line; }

}  // namespace

Signature Call::signature() const {
  Signature signature;
  signature.collective = static_cast<std::uint8_t>(collective);
  signature.type = static_cast<std::uint8_t>(type);
  signature.op = static_cast<std::uint8_t>(op);
  signature.algorithm = static_cast<std::uint8_t>(algorithm);
  signature.count = count;
  return signature;
}

std::string Call::describe() const { return fabring::describe(signature()); }

std::string describe(const Signature& signature) {
  // The fields may come from a peer: names only for values that exist.
  const auto collective = signature.collective <= static_cast<std::uint8_t>(Collective::all_gather)
                              ? name(static_cast<Collective>(signature.collective))
                              : std::string_view("an unknown collective");
  const auto type = signature.type < data_type_count ? name(static_cast<DataType>(signature.type)) : "unknown type";
  const auto op = signature.op < reduce_op_count ? name(static_cast<ReduceOp>(signature.op)) : "unknown operation";
  const auto algorithm = signature.algorithm < all_algorithms().size()
                             ? name(static_cast<Algorithm>(signature.algorithm))
                             : std::string_view("unknown algorithm");
  return fmt::format("{}({} x {}, {}, {})", collective, signature.count, type, op, algorithm);
}

// One tile in flight. `need` counts down each step's dependencies; `data` says whether a step's message is here.
struct Execution::Tile {
  std::uint32_t index = 0;
  bool active = false;
  std::size_t remaining = 0;
  Extent span;                  // elements of the vector
  std::vector<Extent> extents;  // of every range, inside the tile
  std::vector<std::uint32_t> need;
  std::vector<Data> data;        // receives
  std::vector<Slot> granted;     // sends: slot the peer named, 0 if none yet
  std::vector<bool> waiting;     // sends: ready, no grant yet
  std::vector<std::byte*> slot;  // recv_reduce: where its block lands
  std::size_t next_slot_receive = 0;
  std::vector<std::uint32_t> eager_left;  // small messages still to send, per peer
  std::byte* areas = nullptr;             // explicit scratch
};

std::uint64_t Execution::cookie(std::uint16_t index, std::uint32_t tile_slot, StepId step) {
  return (std::uint64_t{index} << 48) | (std::uint64_t{tile_slot & 0xffff} << 32) | step;
}

Execution::Execution(std::shared_ptr<CommunicatorCore> communicator, const Call& call,
                     std::shared_ptr<const PreparedPlan> plan, std::uint32_t sequence, Tiling tiling)
    : communicator_(std::move(communicator)),
      call_(call),
      plan_(std::move(plan)),
      sequence_(sequence),
      tiling_(tiling),
      element_bytes_(size_of(call.type)) {}

Execution::~Execution() = default;

// All that it needs or nothing. The first operation of a communicator gets the least it can run with also beyond the
// budget: two communicators that wait for each other's scratch on different ranks would wait for ever. So the engine
// holds at most its budget and one such least for every communicator.
Execution::Start Execution::reserve() {
  const std::size_t largest = part({0, call_.count}, 0, 1, tiling_.tiles).count;
  std::vector<Extent> extents(plan_->plan.ranges.size());
  fabring::bind(plan_->plan, largest, extents);
  area_bytes_ = 0;
  area_offsets_.clear();
  for (RangeId range : plan_->plan.scratch) {
    area_offsets_.push_back(area_bytes_);
    area_bytes_ += rounded(extents[range].count * element_bytes_);
  }
  slot_bytes_ = 0;
  std::size_t large = 0;  // recv_reduce messages of one tile that need a slot
  for (StepId id : plan_->slot_receives) {
    const std::size_t bytes = extents[plan_->plan.steps[id].to.range].count * element_bytes_;
    if (bytes <= eager_limit_) continue;
    slot_bytes_ = std::max(slot_bytes_, bytes);
    ++large;
  }
  for (std::uint32_t depth = std::min(tiling_.depth, tiling_.tiles); depth > 0; --depth)
    if (borrow(depth, std::min({large * depth, most_slots, std::size_t{depth} * 2}), false)) return Start::started;
  if (!communicator_->active.empty()) return Start::wait;
  const Scratch& scratch = engine_->scratch();
  const bool possible = slot_bytes_ + area_bytes_ <= scratch.budget();
  if (possible && borrow(1, std::min<std::size_t>(large, 1), true)) return Start::started;
  failure_ = Status(ErrorCode::out_of_memory,
                    fmt::format("{} needs blocks of {} bytes of scratch and {} more, but {}", call_.describe(),
                                slot_bytes_, area_bytes_,
                                possible ? std::string("this machine has no more memory")
                                         : fmt::format("FABRING_SCRATCH_BYTES allows {} in all; raise it or lower "
                                                       "FABRING_SEGMENT_BYTES",
                                                       scratch.budget())));
  return Start::failed;
}

bool Execution::borrow(std::uint32_t depth, std::size_t slots, bool beyond_budget) {
  Scratch& scratch = engine_->scratch();
  std::vector<std::byte*> areas;
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
  if (slots_.size() < slots || (area_bytes_ > 0 && areas.size() < depth)) {
    for (std::byte* slot : slots_) scratch.give_back(slot, slot_bytes_);
    for (std::byte* area : areas) scratch.give_back(area, area_bytes_);
    slots_.clear();
    return false;
  }
  tiling_.depth = depth;
  free_slots_ = slots_;
  for (std::uint32_t i = 0; i < depth; ++i) {
    tiles_.push_back(std::make_unique<Tile>());
    if (area_bytes_ > 0) tiles_.back()->areas = areas[i];
  }
  return true;
}

Execution::Start Execution::start(EngineCore& engine, std::uint16_t index, Time now) {
  engine_ = &engine;
  eager_limit_ = engine.eager_limit();
  index_ = index;
  if (const Start reserved = reserve(); reserved != Start::started) return reserved;
  started_ = true;
  started_at_ = now;
  tiles_left_ = tiling_.tiles;
  outstanding_per_peer_.assign(plan_->peers.size(), 0);
  told_.assign(plan_->peers.size(), false);
  const std::size_t steps = plan_->plan.steps.size();
  for (auto& tile : tiles_) {
    tile->extents.resize(plan_->plan.ranges.size());
    tile->need.resize(steps);
    tile->data.resize(steps);
    tile->granted.resize(steps);
    tile->waiting.resize(steps);
    tile->slot.resize(steps);
    tile->eager_left.resize(plan_->peers.size());
  }
  start_tiles();
  return Start::started;
}

bool Execution::tile_active(std::uint32_t tile) const {
  if (!started_ || tile >= next_tile_) return false;
  const Tile& in_slot = *tiles_[tile % tiling_.depth];
  return in_slot.active && in_slot.index == tile;
}

void Execution::start_tiles() {
  while (next_tile_ < tiling_.tiles && !tiles_[next_tile_ % tiling_.depth]->active) {
    const std::uint32_t index = next_tile_++;
    start_tile(index);
  }
}

void Execution::start_tile(std::uint32_t index) {
  Tile& tile = *tiles_[index % tiling_.depth];
  const Plan& plan = plan_->plan;
  tile.index = index;
  tile.active = true;
  tile.remaining = plan.steps.size();
  tile.span = part({0, call_.count}, index, index + 1, tiling_.tiles);
  fabring::bind(plan, tile.span.count, tile.extents);
  std::copy(plan_->dependencies.begin(), plan_->dependencies.end(), tile.need.begin());
  std::fill(tile.data.begin(), tile.data.end(), Data::none);
  std::fill(tile.granted.begin(), tile.granted.end(), Slot{0});
  std::fill(tile.waiting.begin(), tile.waiting.end(), false);
  std::fill(tile.slot.begin(), tile.slot.end(), nullptr);
  tile.next_slot_receive = 0;
  for (std::size_t i = 0; i < plan_->peers.size(); ++i) {
    tile.eager_left[i] = 0;
    for (StepId id : plan_->peers[i].sends)
      if (message_bytes(tile, id) <= eager_limit_) ++tile.eager_left[i];
  }
  if (tile.remaining == 0) {
    finish_tile(tile);
    return;
  }
  // What came early for this tile.
  auto& early = communicator_->early;
  if (!early.empty()) {
    const CommunicatorCore::EarlyKey from{sequence_, index, 0, 0, RecordKind::data};
    for (auto at = early.lower_bound(from);
         at != early.end() && at->first.sequence == sequence_ && at->first.tile == index;) {
      const Record record = at->second.record;
      if (record.kind == RecordKind::announce) {
        --communicator_->early_grants;
        at = early.erase(at);
        continue;
      }
      const auto found = step_of(tile, at->first.peer, record);
      if (!found) {
        engine_->suspect(communicator_->members[at->first.peer], found.error());
        ++at;
        continue;
      }
      const StepId id = *found;
      if (record.kind == RecordKind::grant) {
        tile.granted[id] = record.slot;
        --communicator_->early_grants;
        at = early.erase(at);
      } else {
        tile.data[id] = Data::early;
        if (!at->second.taken) {
          at->second.taken = true;
          engine_->took_early(*communicator_, at->first.peer, true);
        }
        ++at;
      }
    }
  }
  for (auto at = plan_->first_steps.rbegin(); at != plan_->first_steps.rend(); ++at) make_ready(tile, *at);
}

std::uint32_t Execution::oldest_eager_tile(int peer_index) const {
  if (!started_) return 0;
  std::uint32_t oldest = next_tile_;  // tiles not begun have all of theirs to send
  for (const auto& tile : tiles_)
    if (tile->active && tile->eager_left[peer_index] > 0) oldest = std::min(oldest, tile->index);
  return oldest;
}

void Execution::make_ready(Tile& tile, StepId id) { ready_.push_back({&tile, id}); }

bool Execution::advance() {
  if (failed() || !started_) return false;
  bool moved = false;
  if (!retry_.empty()) {
    retrying_.swap(retry_);
    for (const Ready& again : retrying_) run(*again.tile, again.step);
    retrying_.clear();
  }
  while (!ready_.empty() && !failed()) {
    const Ready next = ready_.back();
    ready_.pop_back();
    run(*next.tile, next.step);
    moved = true;
  }
  if (slot_bytes_ > 0 && !failed()) post_slot_receives();
  return moved;
}

std::uint32_t Execution::tile_slot(const Tile& tile) const { return tile.index % tiling_.depth; }

Rank Execution::world_rank(StepId id) const { return communicator_->members[plan_->plan.steps[id].peer]; }

std::span<std::byte> Execution::bytes_of(const Tile& tile, const Block& block) const {
  const Extent& extent = tile.extents[block.range];
  const std::size_t bytes = extent.count * element_bytes_;
  const std::size_t offset = (tile.span.offset + extent.offset) * element_bytes_;
  switch (block.space) {
    case Space::input:
      return {const_cast<std::byte*>(call_.in) + offset, bytes};  // only ever read
    case Space::output:
      return {call_.out + offset, bytes};
    case Space::scratch:
      return {tile.areas + area_offsets_[block.scratch], bytes};
  }
  return {};
}

std::size_t Execution::message_bytes(const Tile& tile, StepId id) const {
  const Step& step = plan_->plan.steps[id];
  const RangeId range = step.kind == StepKind::send ? step.from.range : step.to.range;
  return tile.extents[range].count * element_bytes_;
}

Record Execution::record_for(const Tile& tile, StepId id, RecordKind kind, std::size_t bytes) const {
  const Step& step = plan_->plan.steps[id];
  Record record;
  record.kind = kind;
  record.channel = communicator_->id;
  record.sequence = sequence_;
  record.tile = tile.index;
  record.message = step.message;
  record.bytes = static_cast<std::uint32_t>(bytes);
  record.signature = call_.signature();
  auto& member = communicator_->member[step.peer];
  record.consumed = member.taken;
  member.told = member.taken;
  return record;
}

void Execution::run(Tile& tile, StepId id) {
  const Step& step = plan_->plan.steps[id];
  switch (step.kind) {
    case StepKind::send:
      return run_send(tile, id);
    case StepKind::recv:
      return run_recv(tile, id);
    case StepKind::recv_reduce:
      return run_recv_reduce(tile, id);
    case StepKind::reduce:
      run_reduce(tile, step);
      break;
    case StepKind::copy: {
      const auto to = bytes_of(tile, step.to);
      const auto from = bytes_of(tile, step.from);
      if (plan_->plan.size == 1 && call_.collective == Collective::allreduce) {
        // Of one rank there is nothing to reduce, but truth values become 0 or 1 all the same.
        const void* const source = from.data();
        reduce(call_.type, call_.op, to.data(), {&source, 1}, tile.extents[step.to.range].count);
      } else if (to.data() != from.data() && !to.empty()) {
        std::memcpy(to.data(), from.data(), to.size());
      }
      break;
    }
    case StepKind::finish:
      finish_average(call_.type, bytes_of(tile, step.to).data(), tile.extents[step.to.range].count, plan_->plan.size);
      break;
  }
  step_done(tile, id);
}

void Execution::run_reduce(Tile& tile, const Step& step) {
  std::array<const void*, 64> few;
  std::vector<const void*> many;
  std::span<const void*> sources(few.data(), std::min<std::size_t>(step.operand_count, few.size()));
  if (step.operand_count > few.size()) {
    many.resize(step.operand_count);
    sources = many;
  }
  for (std::uint32_t i = 0; i < step.operand_count; ++i)
    sources[i] = bytes_of(tile, plan_->plan.operands[step.first_operand + i]).data();
  reduce(call_.type, call_.op, bytes_of(tile, step.to).data(), sources, tile.extents[step.to.range].count);
}

void Execution::run_send(Tile& tile, StepId id) {
  const Step& step = plan_->plan.steps[id];
  const std::size_t bytes = message_bytes(tile, id);
  if (bytes > eager_limit_) {
    if (tile.granted[id] != 0) {
      post_send(tile, id, tile.granted[id]);
    } else {
      tile.waiting[id] = true;
      announce(tile, id);
    }
    return;
  }
  if (!engine_->may_send_early(*communicator_, *this, tile.index, step.peer)) {
    retry_.push_back({&tile, id});
    return;
  }
  ++communicator_->member[step.peer].early_sent;
  --tile.eager_left[plan_->peer_of_step[id]];
  told_[plan_->peer_of_step[id]] = true;
  engine_->transfer().send_record(world_rank(id), record_for(tile, id, RecordKind::data, bytes),
                                  bytes_of(tile, step.from));
  step_done(tile, id);
}

void Execution::post_send(Tile& tile, StepId id, Slot slot) {
  const auto bytes = bytes_of(tile, plan_->plan.steps[id].from);
  if (engine_->transfer().send_block(world_rank(id), slot, bytes, cookie(index_, tile_slot(tile), id)) == Post::again) {
    retry_.push_back({&tile, id});
    return;
  }
  tile.granted[id] = 0;
  tile.waiting[id] = false;
  ++outstanding_;
  ++outstanding_per_peer_[plan_->peer_of_step[id]];
}

// If this rank called something larger than the receiver did, the receiver waits for data and will never grant; so that
// it can tell, it must hear of this call at least once.
void Execution::announce(const Tile& tile, StepId id) {
  if (told_[plan_->peer_of_step[id]]) return;
  told_[plan_->peer_of_step[id]] = true;
  Record record = record_for(tile, id, RecordKind::announce, 0);
  record.tile = 0;
  engine_->transfer().send_record(world_rank(id), record);
}

void Execution::grant(Tile& tile, StepId id, Slot slot, std::size_t bytes) {
  Record record = record_for(tile, id, RecordKind::grant, bytes);
  record.slot = slot;
  engine_->transfer().send_record(world_rank(id), record);
  tile.data[id] = Data::posted;
  told_[plan_->peer_of_step[id]] = true;
  ++outstanding_;
  ++outstanding_per_peer_[plan_->peer_of_step[id]];
}

void Execution::run_recv(Tile& tile, StepId id) {
  const Step& step = plan_->plan.steps[id];
  const auto to = bytes_of(tile, step.to);
  if (to.size() > eager_limit_) {
    Slot slot = 0;
    if (engine_->transfer().recv_block(world_rank(id), to, cookie(index_, tile_slot(tile), id), slot) == Post::again) {
      retry_.push_back({&tile, id});
    } else {
      grant(tile, id, slot, to.size());
    }
    return;
  }
  if (tile.data[id] != Data::early) return;  // on_record will bring it
  auto& early = communicator_->early;
  const auto at = early.find({sequence_, tile.index, step.peer, step.message, RecordKind::data});
  if (!to.empty()) std::memcpy(to.data(), at->second.payload.data(), to.size());
  early.erase(at);
  step_done(tile, id);
}

void Execution::run_recv_reduce(Tile& tile, StepId id) {
  const Step& step = plan_->plan.steps[id];
  if (tile.data[id] == Data::here) {
    std::byte* slot = tile.slot[id];
    tile.slot[id] = nullptr;
    reduce_incoming(tile, id, slot);
    free_slots_.push_back(slot);
    step_done(tile, id);
  } else if (tile.data[id] == Data::early) {
    auto& early = communicator_->early;
    const auto at = early.find({sequence_, tile.index, step.peer, step.message, RecordKind::data});
    reduce_incoming(tile, id, at->second.payload.data());
    early.erase(at);
    step_done(tile, id);
  }  // else on_block or on_record goes on, seeing need == 0
}

void Execution::reduce_incoming(Tile& tile, StepId id, const std::byte* incoming) {
  const Step& step = plan_->plan.steps[id];
  const std::size_t count = tile.extents[step.to.range].count;
  const void* local = bytes_of(tile, step.from).data();
  std::array<const void*, 2> sources{local, incoming};
  if (step.incoming_first) std::swap(sources[0], sources[1]);
  reduce(call_.type, call_.op, bytes_of(tile, step.to).data(), sources, count);
}

// Slots go to the oldest tile and the earliest step first: what is posted can always be used before what is not.
void Execution::post_slot_receives() {
  const std::uint32_t oldest = next_tile_ > tiling_.depth ? next_tile_ - tiling_.depth : 0;
  for (std::uint32_t index = oldest; index < next_tile_ && !free_slots_.empty(); ++index) {
    Tile& tile = *tiles_[index % tiling_.depth];
    if (!tile.active || tile.index != index) continue;
    for (; tile.next_slot_receive < plan_->slot_receives.size(); ++tile.next_slot_receive) {
      const StepId id = plan_->slot_receives[tile.next_slot_receive];
      const std::size_t bytes = message_bytes(tile, id);
      if (bytes <= eager_limit_) continue;
      if (free_slots_.empty()) return;
      std::byte* at = free_slots_.back();
      Slot slot = 0;
      if (engine_->transfer().recv_block(world_rank(id), {at, bytes}, cookie(index_, tile_slot(tile), id), slot) ==
          Post::again)
        return;
      free_slots_.pop_back();
      tile.slot[id] = at;
      grant(tile, id, slot, bytes);
    }
  }
}

Result<StepId> Execution::step_of(const Tile& tile, Rank peer, const Record& record) const {
  const int at = plan_->peer_index(peer);
  const bool is_grant = record.kind == RecordKind::grant;
  if (at >= 0) {
    const auto& list = is_grant ? plan_->peers[at].sends : plan_->peers[at].receives;
    if (record.message < list.size() && record.bytes == message_bytes(tile, list[record.message]) &&
        (record.bytes > eager_limit_) == is_grant && (!is_grant || record.slot >= Transfer::eager_slots))
      return list[record.message];
  }
  return Status(ErrorCode::transport_error,
                "it sent a message that is in no plan; it runs another build of Fabring, or its memory is broken");
}

Status Execution::on_record(Rank peer, const Record& record, std::span<const std::byte> payload) {
  Tile& tile = *tiles_[record.tile % tiling_.depth];
  const auto found = step_of(tile, peer, record);
  if (!found) return found.error();
  const StepId id = *found;
  if (record.kind == RecordKind::grant) {
    if (tile.granted[id] != 0) return Status(ErrorCode::transport_error, "it granted a message twice");
    tile.granted[id] = record.slot;
    if (tile.waiting[id]) post_send(tile, id, record.slot);
    return {};
  }
  if (tile.data[id] != Data::none) return Status(ErrorCode::transport_error, "it sent a message twice");
  if (tile.need[id] != 0) {  // came before this rank may use it
    auto& early = communicator_->early[{sequence_, record.tile, peer, record.message, RecordKind::data}];
    early.record = record;
    early.payload.assign(payload.begin(), payload.end());
    early.taken = true;
    tile.data[id] = Data::early;
    return {};
  }
  tile.data[id] = Data::here;
  const Step& step = plan_->plan.steps[id];
  if (step.kind == StepKind::recv_reduce) {
    reduce_incoming(tile, id, payload.data());
  } else if (!payload.empty()) {
    std::memcpy(bytes_of(tile, step.to).data(), payload.data(), payload.size());
  }
  step_done(tile, id);
  return {};
}

void Execution::on_block(std::uint32_t tile_slot, StepId id, Outcome outcome, std::uint32_t bytes) {
  Tile& tile = *tiles_[tile_slot];
  const Step& step = plan_->plan.steps[id];
  --outstanding_;
  --outstanding_per_peer_[plan_->peer_of_step[id]];
  if (failed()) return;
  if (outcome != Outcome::done) return;  // the engine hears of the lost peer and fails us
  if (step.kind == StepKind::send) return step_done(tile, id);
  if (bytes != message_bytes(tile, id)) return;  // declined: the peer has failed, and says why on the control plane
  tile.data[id] = Data::here;
  if (step.kind == StepKind::recv) return step_done(tile, id);
  if (tile.need[id] == 0) run_recv_reduce(tile, id);
}

void Execution::step_done(Tile& tile, StepId id) {
  const Step& step = plan_->plan.steps[id];
  --tile.remaining;
  for (std::uint32_t i = step.successor_count; i-- > 0;) {
    const StepId next = plan_->plan.successors[step.first_successor + i];
    if (--tile.need[next] == 0) make_ready(tile, next);
  }
  if (tile.remaining == 0) finish_tile(tile);
}

void Execution::finish_tile(Tile& tile) {
  tile.active = false;
  --tiles_left_;
  start_tiles();
}

void Execution::fail(const Status& why) {
  if (failed()) return;
  failure_ = why;
  ready_.clear();
  retry_.clear();
  if (!started_) return;
  for (auto& tile : tiles_) {
    if (!tile->active) continue;
    for (StepId id = 0; id < tile->granted.size(); ++id) {
      if (tile->granted[id] == 0) continue;
      engine_->transfer().decline(world_rank(id), tile->granted[id]);
      tile->granted[id] = 0;
    }
  }
}

void Execution::publish() {
  if (engine_ != nullptr) {
    for (std::byte* slot : slots_) engine_->scratch().give_back(slot, slot_bytes_);
    for (auto& tile : tiles_)
      if (tile->areas != nullptr) engine_->scratch().give_back(tile->areas, area_bytes_);
  }
  slots_.clear();
  tiles_.clear();
  status_ = failure_;
  done_.store(true, std::memory_order_release);
}

std::vector<Rank> Execution::peers_outstanding() const {
  std::vector<Rank> ranks;
  for (std::size_t i = 0; i < outstanding_per_peer_.size(); ++i)
    if (outstanding_per_peer_[i] > 0) ranks.push_back(communicator_->members[plan_->peers[i].rank]);
  return ranks;
}

std::vector<Rank> Execution::waiting_for() const {
  std::vector<Rank> ranks;
  for (const auto& tile : tiles_) {
    if (!tile->active) continue;
    for (StepId id = 0; id < plan_->plan.steps.size(); ++id) {
      const Step& step = plan_->plan.steps[id];
      const bool receiving = (step.kind == StepKind::recv || step.kind == StepKind::recv_reduce) &&
                             (tile->need[id] == 0 || tile->data[id] == Data::posted) && tile->data[id] != Data::here &&
                             tile->data[id] != Data::early;
      if (receiving || tile->waiting[id]) ranks.push_back(step.peer);
    }
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

std::uint64_t Execution::bytes_done() const {
  if (!started_) return 0;
  return call_.bytes() / tiling_.tiles * (tiling_.tiles - tiles_left_);
}

}  // namespace fabring

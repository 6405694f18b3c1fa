// Messages that stay where they are on a device: a ticket says where that is, and the receiver reads it there.

#include "runtime/base/nonsense.hpp"
#include "runtime/engine/device/device_sharing.hpp"
#include "runtime/engine/device/device_ticket.hpp"
#include "runtime/engine/engine_core.hpp"
#include "runtime/engine/execution/execution.hpp"
#include "runtime/engine/members/communicator_core.hpp"

namespace fabring {

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
  const auto handed = engine_->devices().handed_pieces().hand_over(world_rank(id), ticket.facts);
  ticket.handed = handed.value_or(0);
  // As many loans are out as there can be, and who has them may be waiting for this one.
  const Post post = !handed ? Post::again
                            : engine_->transfer().send_ticket(world_rank(id), slot, ticket.as_bytes(), from.size(),
                                                              cookie(index_, tile_slot(tile), id));
  if (post == Post::again) {
    tile.steps[id].in_full = true;
    return post_send(tile, id, slot);
  }
  tile.steps[id].granted = 0;
  tile.steps[id].waiting = false;
  now_outstanding(id);
}

void Execution::on_ticket(std::uint32_t tile_slot, StepId id, std::span<const std::byte> bytes, std::uint32_t loan) {
  Tile& tile = *tiles_[tile_slot];
  no_longer_outstanding(id);
  const Rank peer = world_rank(id);
  if (failed()) return engine_->transfer().refuse(peer, loan);
  communicator_->member[plan_->plan.steps[id].peer].heard = true;
  tile.steps[id].only_ticket = false;
  engine_->devices().sends_in_full(peer, false);
  const auto ticket = DeviceTicket::read(bytes, message_bytes(tile, id));
  if (!ticket || (ticket->facts.base + ticket->facts.offset) % size_of(call_.type) != 0) {
    engine_->transfer().refuse(peer, loan);
    return engine_->suspect(peer, nonsense("it lent memory of a GPU that cannot be that long, or not there", place()));
  }
  auto opened = engine_->devices().handed_pieces().open(peer, call_.device.shared->device, *ticket);
  if (opened) {
    tile.steps[id].lent = {opened->get(), loan, false, *opened};
    return use_ticket(tile, id);
  }
  engine_->transfer().refuse(peer, loan);
  if (opened.error().code() == ErrorCode::device_error)
    return engine_->device_failed(*this, opened.error().with_prefix("reading memory that a peer lent: "));
  if (opened.error().code() != ErrorCode::unavailable)
    engine_->devices().cannot_open(peer, engine_->who(peer), opened.error());
  tile.steps[id].in_full = true;
  tile.steps[id].data = Data::none;
  if (plan_->plan.steps[id].kind == StepKind::recv) return run_recv(tile, id);
  tile.steps[id].data = Data::to_grant;
  run_recv_reduce(tile, id);
}

// A loan that would have to wait for this rank's own sends is copied at once: its owner may be waiting for it.
void Execution::use_ticket(Tile& tile, StepId id) {
  const Step& step = plan_->plan.steps[id];
  StepState::Lent& lent = tile.steps[id].lent;
  tile.steps[id].data = Data::here;
  if (step.kind == StepKind::recv && stays_where_it_comes(id)) {
    tile.there.lent[step.to.scratch] = lent.at;
    return step_done(tile, id);
  }
  if (step.kind == StepKind::recv) return post_on_device(tile, id, lent.at);
  if (tile.steps[id].need == 0) return read_incoming(tile, id);
  if (plan_->may_stay[id]) return;
  tile.steps[id].data = Data::on_its_way;
  lent.reading = true;
  copy_list_.assign(1, {tile.steps[id].slot, lent.at, message_bytes(tile, id)});
  ++copies_;
  engine_->devices().copies().post(call_.device.shared->device, CopyWay::to_host, copy_list_,
                                   cookie(index_, tile_slot(tile), id));
}

}  // namespace fabring

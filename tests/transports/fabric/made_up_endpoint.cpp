// Endpoints of the made-up provider: messages between those of this process, and reads of one's own memory through the
// card.

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "tests/transports/fabric/made_up_parts.hpp"

namespace fabring::made_up {
namespace {

std::map<std::uint16_t, Door*> doors;  // by port
std::uint16_t next_port = 1;

Posted posted(const Door& door, const Receive& receive) {
  return {receive.context, FI_RECV | FI_MSG | FI_TAGGED, receive.tag, door.queue};
}

void land(Door& door, const Receive& receive, const Message& message) {
  if (message.bytes.size() > receive.bytes) return door.queue->failed(posted(door, receive), {FI_ETRUNC});
  Registration* const registration = receive.registration;
  if (!message.bytes.empty()) {
    if (registration && registration->device && control.late_writes) {
      registration->parked.push_back({see(receive.into), message.bytes});
    } else {
      std::memcpy(see(receive.into), message.bytes.data(), message.bytes.size());
    }
  }
  door.queue->done(receive.context, FI_RECV | FI_TAGGED, message.bytes.size());
}

/// False: nobody is there.
bool deliver(const Door& door, const void* at, std::size_t bytes, fi_addr_t to, std::uint64_t tag) {
  const auto found = doors.find(door.addresses->ports.at(to));
  if (found == doors.end()) return false;
  Door& there = *found->second;
  Message message{tag, {}};
  if (bytes > 0) message.bytes.assign(see(at), see(at) + bytes);
  const auto waiting = std::find_if(there.receives.begin(), there.receives.end(),
                                    [&](const Receive& receive) { return receive.tag == tag; });
  if (waiting == there.receives.end()) {
    there.early.push_back(std::move(message));
  } else {
    const Receive receive = *waiting;
    there.receives.erase(waiting);
    land(there, receive, message);
  }
  return true;
}

ssize_t send(fid_ep* ep, const void* at, std::size_t bytes, void* descriptor, fi_addr_t to, std::uint64_t tag,
             void* context) {
  const Lock lock(mutex);
  const Door& door = *of<Door>(ep);
  const Registration* const registration = check(at, bytes, descriptor, FI_SEND);
  if (control.answer_to_posting != 0) return control.answer_to_posting;
  if (door.addresses->ports.at(to) == control.full_to) return -FI_EAGAIN;
  if (registration && registration->device) ++control.from_device;
  const Posted post{context, FI_SEND | FI_MSG | FI_TAGGED, tag, door.queue};
  control.posted.push_back(post);
  if (control.stuck_sends) return 0;
  if (control.answer_to_send.error != 0) {
    door.queue->failed(post, std::exchange(control.answer_to_send, {}));
    return 0;
  }
  if (deliver(door, at, bytes, to, tag)) {
    door.queue->done(context, FI_SEND | FI_TAGGED, 0);
  } else {
    door.queue->failed(post, {ECONNRESET});
  }
  return 0;
}

ssize_t inject(fid_ep* ep, const void* at, std::size_t bytes, fi_addr_t to, std::uint64_t tag) {
  const Lock lock(mutex);
  if (control.answer_to_injection != 0) return control.answer_to_injection;
  if (++control.injections != control.lost_injection) (void)deliver(*of<Door>(ep), at, bytes, to, tag);
  return 0;
}

ssize_t receive(fid_ep* ep, void* at, std::size_t bytes, void* descriptor, fi_addr_t, std::uint64_t tag, std::uint64_t,
                void* context) {
  const Lock lock(mutex);
  Door& door = *of<Door>(ep);
  if (control.answer_to_posting != 0) return control.answer_to_posting;
  const Receive one{static_cast<std::byte*>(at), bytes, check(at, bytes, descriptor, FI_RECV), tag, context};
  control.posted.push_back(posted(door, one));
  const auto early =
      std::find_if(door.early.begin(), door.early.end(), [&](const Message& message) { return message.tag == tag; });
  if (early == door.early.end()) {
    door.receives.push_back(one);
  } else {
    const Message message = std::move(*early);
    door.early.erase(early);
    land(door, one, message);
  }
  return 0;
}

ssize_t read(fid_ep* ep, void* into, std::size_t bytes, void* descriptor, fi_addr_t from, std::uint64_t at,
             std::uint64_t key, void* context) {
  const Lock lock(mutex);
  Door& door = *of<Door>(ep);
  if (control.busy_reads > 0 && control.busy_reads-- > 0) return -FI_EAGAIN;
  if (control.failing_reads) return -FI_EIO;
  (void)check(into, bytes, descriptor, FI_READ);
  if (door.addresses->ports.at(from) != door.port) broken("a read from another rank");
  Registration* const found = registration_of(key);
  if (found == nullptr) broken("a read of memory that is not registered");
  Registration& source = *found;
  const auto* const first = reinterpret_cast<const std::byte*>(at);
  (void)check(first, bytes, &source, FI_REMOTE_READ);
  for (const Parked& parked : source.parked) std::memcpy(parked.to, parked.bytes.data(), parked.bytes.size());
  source.parked.clear();
  std::memcpy(into, see(first), bytes);
  ++control.reads;
  door.queue->done(context, FI_READ | FI_RMA, 0);
  return 0;
}

ssize_t cancel(fid_t fid, void* context) {
  const Lock lock(mutex);
  Door& door = *of<Door>(fid);
  const auto found = std::find_if(door.receives.begin(), door.receives.end(),
                                  [&](const Receive& one) { return one.context == context; });
  if (found == door.receives.end()) return 0;
  door.queue->failed(posted(door, *found), {FI_ECANCELED});
  door.receives.erase(found);
  return 0;
}

int set_option(fid_t, int, int option, const void*, std::size_t) {
  return option == FI_OPT_FI_HMEM_P2P ? control.answer_to_promise : -FI_ENOPROTOOPT;
}

int name(fid_t fid, void* into, std::size_t* bytes) {
  const Door& door = *of<Door>(fid);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(door.port);
  address.sin_addr = door.host;
  std::memcpy(into, &address, std::min(*bytes, sizeof address));
  *bytes = sizeof address;
  return 0;
}

int bind_door(fid_t fid, fid_t other, std::uint64_t) {
  Door& door = *of<Door>(fid);
  if (other->fclass == FI_CLASS_CQ) door.queue = of<Queue>(other);
  if (other->fclass == FI_CLASS_AV) door.addresses = of<Addresses>(other);
  return 0;
}

int enable(fid_t fid, int, void*) {
  const Lock lock(mutex);
  Door& door = *of<Door>(fid);
  doors[door.port] = &door;
  return 0;
}

int close_door(fid_t fid) {
  const Lock lock(mutex);
  doors.erase(of<Door>(fid)->port);
  delete of<Door>(fid);
  return 0;
}

}  // namespace

int open_door(fid_domain*, fi_info* info, fid_ep** into, void*) {
  if (control.answer_to_opening != 0) return control.answer_to_opening;
  static fi_ops ops = table<fi_ops>([](fi_ops& to) {
    to.close = close_door;
    to.bind = bind_door;
    to.control = enable;
  });
  static fi_ops_ep calls = table<fi_ops_ep>([](fi_ops_ep& to) {
    to.cancel = cancel;
    to.setopt = set_option;
  });
  static fi_ops_cm naming = table<fi_ops_cm>([](fi_ops_cm& to) { to.getname = name; });
  static fi_ops_tagged messages = table<fi_ops_tagged>([](fi_ops_tagged& to) {
    to.send = send;
    to.recv = receive;
    to.inject = inject;
  });
  static fi_ops_rma remote = table<fi_ops_rma>([](fi_ops_rma& to) { to.read = read; });
  const Lock lock(mutex);
  auto* const made = new Door;
  introduce(made->base.fid, FI_CLASS_EP, ops);
  made->base.ops = &calls;
  made->base.cm = &naming;
  made->base.tagged = &messages;
  if (info->caps & FI_RMA) made->base.rma = &remote;
  made->port = next_port++;
  made->host = static_cast<const sockaddr_in*>(info->src_addr)->sin_addr;
  *into = &made->base;
  return 0;
}

}  // namespace fabring::made_up

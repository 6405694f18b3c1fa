#include "tests/transports/fabric/made_up_provider.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_prov.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

namespace {

using fabring::made_up::Control;

std::recursive_mutex mutex;
using Lock = std::unique_lock<std::recursive_mutex>;
Control control;

[[noreturn]] void broken(const char* rule) {
  std::fprintf(stderr, "made-up provider: %s\n", rule);
  std::abort();
}

std::byte* see(const void* at) {
  return control.see ? control.see(at) : static_cast<std::byte*>(const_cast<void*>(at));
}

// The libfabric object comes first in each of ours.
template <class Ours, class Fid>
Ours* of(Fid* fid) {
  return reinterpret_cast<Ours*>(fid);
}

struct Queue {
  fid_cq base{};
  std::deque<fi_cq_msg_entry> entries;
  std::deque<fi_cq_err_entry> errors;
  bool signalled = false;
  std::condition_variable_any news;

  void done(void* context, std::uint64_t flags, std::size_t bytes) {
    entries.push_back({context, flags, bytes});
    news.notify_all();
  }
  void failed(void* context, int error) {
    fi_cq_err_entry entry{};
    entry.op_context = context;
    entry.err = error;
    errors.push_back(entry);
    news.notify_all();
  }
};

struct Addresses {
  fid_av base{};
  std::vector<std::uint16_t> ports;
};

struct Parked {
  std::byte* to;
  std::vector<std::byte> bytes;
};

struct Registration {
  fid_mr base{};
  const std::byte* first = nullptr;
  std::size_t bytes = 0;
  std::uint64_t access = 0;
  bool device = false;
  std::vector<Parked> parked;
};
std::set<Registration*> registrations;

struct Receive {
  std::byte* into;
  std::size_t bytes;
  Registration* registration;
  std::uint64_t tag;
  void* context;
};
struct Message {
  std::uint64_t tag;
  std::vector<std::byte> bytes;
};

struct Door {
  fid_ep base{};
  std::uint16_t port = 0;
  in_addr host{};
  Queue* queue = nullptr;
  Addresses* addresses = nullptr;
  std::deque<Receive> receives;
  std::deque<Message> early;
};
std::map<std::uint16_t, Door*> doors;  // by port
std::uint16_t next_port = 1;

// Every piece of memory that is named must be registered, for this.
Registration* check(const void* at, std::size_t bytes, void* descriptor, std::uint64_t access) {
  if (bytes == 0) return nullptr;
  auto* const registration = static_cast<Registration*>(descriptor);
  if (!registrations.contains(registration)) broken("a post names memory without a living registration");
  const auto* const first = static_cast<const std::byte*>(at);
  if (first < registration->first || first + bytes > registration->first + registration->bytes)
    broken("a post names memory beyond its registration");
  if ((registration->access & access) != access) broken("memory is not registered for this");
  return registration;
}

void land(Door& door, const Receive& receive, const Message& message) {
  if (message.bytes.size() > receive.bytes) return door.queue->failed(receive.context, FI_ETRUNC);
  Registration* const registration = receive.registration;
  if (registration && registration->device && control.late_writes) {
    registration->parked.push_back({see(receive.into), message.bytes});
  } else if (!message.bytes.empty()) {
    std::memcpy(see(receive.into), message.bytes.data(), message.bytes.size());
  }
  door.queue->done(receive.context, FI_RECV | FI_TAGGED, message.bytes.size());
}

ssize_t send(fid_ep* ep, const void* at, std::size_t bytes, void* descriptor, fi_addr_t to, std::uint64_t tag,
             void* context) {
  const Lock lock(mutex);
  Door& door = *of<Door>(ep);
  const Registration* const registration = check(at, bytes, descriptor, FI_SEND);
  if (registration && registration->device) ++control.from_device;
  const auto found = doors.find(door.addresses->ports.at(to));
  if (found == doors.end()) {
    door.queue->failed(context, ECONNRESET);
    return 0;
  }
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
  door.queue->done(context, FI_SEND | FI_TAGGED, 0);
  return 0;
}

ssize_t receive(fid_ep* ep, void* at, std::size_t bytes, void* descriptor, fi_addr_t, std::uint64_t tag, std::uint64_t,
                void* context) {
  const Lock lock(mutex);
  Door& door = *of<Door>(ep);
  const Receive one{static_cast<std::byte*>(at), bytes, check(at, bytes, descriptor, FI_RECV), tag, context};
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
  const auto found = std::find_if(registrations.begin(), registrations.end(),
                                  [&](const Registration* one) { return one->base.key == key; });
  if (found == registrations.end()) broken("a read of memory that is not registered");
  Registration& source = **found;
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
  if (std::erase_if(door.receives, [&](const Receive& one) { return one.context == context; }) > 0)
    door.queue->failed(context, FI_ECANCELED);
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

template <class Ours>
int close_ours(fid_t fid) {
  const Lock lock(mutex);
  delete of<Ours>(fid);
  return 0;
}

int close_registration(fid_t fid) {
  const Lock lock(mutex);
  auto* const registration = of<Registration>(fid);
  if (registration->device) --control.registered;
  registrations.erase(registration);
  delete registration;
  return 0;
}

fi_ops plain(int (*close)(fid_t)) {
  fi_ops ops{};
  ops.size = sizeof ops;
  ops.close = close;
  return ops;
}

int add(const std::byte* first, std::size_t bytes, std::uint64_t access, bool device, fid_mr** into) {
  static fi_ops ops = plain(close_registration);
  static std::uint64_t keys = 100;
  const Lock lock(mutex);
  auto* const made = new Registration;
  made->base.fid.fclass = FI_CLASS_MR;
  made->base.fid.ops = &ops;
  made->base.mem_desc = made;
  made->base.key = ++keys;
  made->first = first;
  made->bytes = bytes;
  made->access = access;
  made->device = device;
  registrations.insert(made);
  if (device) ++control.registered, ++control.registrations;
  *into = &made->base;
  return 0;
}

int add_memory(fid*, const void* at, std::size_t bytes, std::uint64_t access, std::uint64_t, std::uint64_t,
               std::uint64_t, fid_mr** into, void*) {
  if (see(at) != at) broken("memory of the GPU is registered as the host's");
  return add(static_cast<const std::byte*>(at), bytes, access, false, into);
}

int add_any_memory(fid*, const fi_mr_attr* what, std::uint64_t flags, fid_mr** into) {
  if (control.answer_to_registering != 0) return control.answer_to_registering;
  if (flags != 0 || what->iov_count != 1 || what->iface != FI_HMEM_CUDA || what->device.cuda != 0) return -FI_EINVAL;
  const auto* const first = static_cast<const std::byte*>(what->mr_iov->iov_base);
  if (see(first) == first) broken("memory of the host is registered as the GPU's");
  return add(first, what->mr_iov->iov_len, what->access, true, into);
}

// ---- queues and addresses -----------------------------------------------------------------------------------------

ssize_t read_queue(fid_cq* cq, void* into, std::size_t count) {
  const Lock lock(mutex);
  Queue& queue = *of<Queue>(cq);
  if (!queue.errors.empty()) return -FI_EAVAIL;
  if (queue.entries.empty()) return -FI_EAGAIN;
  count = std::min(count, queue.entries.size());
  std::copy_n(queue.entries.begin(), count, static_cast<fi_cq_msg_entry*>(into));
  queue.entries.erase(queue.entries.begin(), queue.entries.begin() + static_cast<std::ptrdiff_t>(count));
  return static_cast<ssize_t>(count);
}

ssize_t sleep_in_queue(fid_cq* cq, void* into, std::size_t count, const void*, int milliseconds) {
  Lock lock(mutex);
  Queue& queue = *of<Queue>(cq);
  queue.news.wait_for(lock, std::chrono::milliseconds(milliseconds),
                      [&] { return queue.signalled || !queue.entries.empty() || !queue.errors.empty(); });
  queue.signalled = false;
  return read_queue(cq, into, count);
}

ssize_t read_error(fid_cq* cq, fi_cq_err_entry* into, std::uint64_t) {
  const Lock lock(mutex);
  Queue& queue = *of<Queue>(cq);
  if (queue.errors.empty()) return -FI_EAGAIN;
  *into = queue.errors.front();
  queue.errors.pop_front();
  return 1;
}

int signal(fid_cq* cq) {
  const Lock lock(mutex);
  of<Queue>(cq)->signalled = true;
  of<Queue>(cq)->news.notify_all();
  return 0;
}

int insert(fid_av* av, const void* names, std::size_t count, fi_addr_t* into, std::uint64_t, void*) {
  const Lock lock(mutex);
  auto& ports = of<Addresses>(av)->ports;
  for (std::size_t i = 0; i < count; ++i) {
    into[i] = ports.size();
    ports.push_back(ntohs(static_cast<const sockaddr_in*>(names)[i].sin_port));
  }
  return static_cast<int>(count);
}

const char* in_words(fid_av*, const void* name, char* into, std::size_t* bytes) {
  std::snprintf(into, *bytes, "fi_sockaddr_in://made.up:%d", ntohs(static_cast<const sockaddr_in*>(name)->sin_port));
  return into;
}

// ---- opening ------------------------------------------------------------------------------------------------------

int open_addresses(fid_domain*, fi_av_attr*, fid_av** into, void*) {
  static fi_ops ops = plain(close_ours<Addresses>);
  static fi_ops_av calls{};
  calls.size = sizeof calls;
  calls.insert = insert;
  calls.straddr = in_words;
  auto* const made = new Addresses;
  made->base.fid.fclass = FI_CLASS_AV;
  made->base.fid.ops = &ops;
  made->base.ops = &calls;
  *into = &made->base;
  return 0;
}

int open_queue(fid_domain*, fi_cq_attr*, fid_cq** into, void*) {
  static fi_ops ops = plain(close_ours<Queue>);
  static fi_ops_cq calls{};
  calls.size = sizeof calls;
  calls.read = read_queue;
  calls.sread = sleep_in_queue;
  calls.readerr = read_error;
  calls.signal = signal;
  auto* const made = new Queue;
  made->base.fid.fclass = FI_CLASS_CQ;
  made->base.fid.ops = &ops;
  made->base.ops = &calls;
  *into = &made->base;
  return 0;
}

int open_door(fid_domain*, fi_info* info, fid_ep** into, void*) {
  static fi_ops ops = plain(close_door);
  ops.bind = bind_door;
  ops.control = enable;
  static fi_ops_ep calls{};
  calls.size = sizeof calls;
  calls.cancel = cancel;
  calls.setopt = set_option;
  static fi_ops_cm naming{};
  naming.size = sizeof naming;
  naming.getname = name;
  static fi_ops_tagged messages{};
  messages.size = sizeof messages;
  messages.send = send;
  messages.recv = receive;
  static fi_ops_rma remote{};
  remote.size = sizeof remote;
  remote.read = read;
  const Lock lock(mutex);
  auto* const made = new Door;
  made->base.fid.fclass = FI_CLASS_EP;
  made->base.fid.ops = &ops;
  made->base.ops = &calls;
  made->base.cm = &naming;
  made->base.tagged = &messages;
  if (info->caps & FI_RMA) made->base.rma = &remote;
  made->port = next_port++;
  made->host = static_cast<const sockaddr_in*>(info->src_addr)->sin_addr;
  *into = &made->base;
  return 0;
}

int open_domain(fid_fabric*, fi_info* info, fid_domain** into, void*) {
  if ((info->caps & FI_HMEM) && !control.opens_for_devices) return -FI_ENODEV;
  static fi_ops ops = plain(close_ours<fid_domain>);
  static fi_ops_domain calls{};
  calls.size = sizeof calls;
  calls.av_open = open_addresses;
  calls.cq_open = open_queue;
  calls.endpoint = open_door;
  static fi_ops_mr memory{};
  memory.size = sizeof memory;
  memory.reg = add_memory;
  memory.regattr = add_any_memory;
  auto* const made = new fid_domain{};
  made->fid.fclass = FI_CLASS_DOMAIN;
  made->fid.ops = &ops;
  made->ops = &calls;
  made->mr = &memory;
  *into = made;
  return 0;
}

int open_fabric(fi_fabric_attr*, fid_fabric** into, void*) {
  static fi_ops ops = plain(close_ours<fid_fabric>);
  static fi_ops_fabric calls{};
  calls.size = sizeof calls;
  calls.domain = open_domain;
  auto* const made = new fid_fabric{};
  made->fid.fclass = FI_CLASS_FABRIC;
  made->fid.ops = &ops;
  made->ops = &calls;
  *into = made;
  return 0;
}

int offer(std::uint32_t, const char* node, const char*, std::uint64_t, const fi_info* hints, fi_info** into) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (node && inet_pton(AF_INET, node, &address.sin_addr) != 1) return -FI_ENODATA;
  const std::uint64_t wanted = hints ? hints->caps : 0;
  if ((wanted & FI_HMEM) && !control.offers_devices) return -FI_ENODATA;
  fi_info* const info = fi_allocinfo();
  if (!info) return -FI_ENOMEM;
  info->caps = wanted ? wanted : FI_MSG | FI_TAGGED;
  info->addr_format = FI_SOCKADDR_IN;
  info->src_addrlen = sizeof address;
  info->src_addr = std::malloc(sizeof address);
  std::memcpy(info->src_addr, &address, sizeof address);
  info->ep_attr->type = FI_EP_RDM;
  info->ep_attr->protocol = 0x4d55;
  info->ep_attr->protocol_version = 1;
  info->ep_attr->max_msg_size = SIZE_MAX;
  info->tx_attr->size = info->rx_attr->size = 256;
  info->domain_attr->threading = FI_THREAD_SAFE;
  info->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
  if (wanted & FI_HMEM) info->domain_attr->mr_mode |= FI_MR_HMEM;
  info->domain_attr->name = ::strdup("made_up0");
  info->fabric_attr->name = ::strdup("made up");
  *into = info;
  return 0;
}

fi_provider provider{};

}  // namespace

extern "C" __attribute__((visibility("default"))) Control* made_up_control() { return &control; }

extern "C" __attribute__((visibility("default"))) fi_provider* fi_prov_ini() {
  provider.version = FI_VERSION(1, 0);
  provider.fi_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
  provider.name = "made_up";
  provider.getinfo = offer;
  provider.fabric = open_fabric;
  provider.cleanup = [] {};
  return &provider;
}

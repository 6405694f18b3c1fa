// Memory of one process that another opens: handles of allocations (CUDA IPC), and dmabufs.

#include <fcntl.h>

#include <cstring>
#include <tuple>

#include "tests/support/fake_cuda/fake_cuda.hpp"

namespace {

// What a handle of memory says. The driver's says nothing to anybody.
struct Lent {
  unsigned long long number;  // of the allocation, which a test changes
  pid_t process;
  int device;
  int descriptor;
  std::size_t place, bytes;
};
static_assert(sizeof(Lent) <= sizeof(IpcHandle));
struct Opened {
  unsigned long long number;
  Address at;
  int users;
};
std::mutex opened_mutex;
// By process and place in its memory, and who opened it. For good: a thread may close some while the process ends.
auto& opened = *new std::map<std::tuple<pid_t, std::size_t, int>, Opened>();
std::atomic<unsigned long> opens{0}, closes{0};

}  // namespace

FAKE Answer cuMemGetAddressRange_v2(Address* base, std::size_t* bytes, Address at) {
  if (const Answer answer = check(); answer != success) return answer;
  const auto found = device->look_up(reinterpret_cast<const void*>(at));
  if (!found.has_value() || found->base == nullptr) return invalid_value;
  *base = reinterpret_cast<Address>(found->base);
  *bytes = found->bytes;
  return success;
}

// As strict about pages as the driver; it knows nothing of what CUDA 12.8 brought.
FAKE Answer cuMemGetHandleForAddressRange(void* handle, Address at, std::size_t bytes, int type,
                                          unsigned long long flags) {
  if (const Answer answer = check(); answer != success) return answer;
  if (type != range_is_dmabuf || flags != 0) return invalid_value;
  auto exported = device->export_pages(reinterpret_cast<const std::byte*>(at), bytes);
  if (!exported) return invalid_value;
  *static_cast<int*>(handle) = ::dup(exported->fd());
  return success;
}

FAKE Answer cuIpcGetMemHandle(IpcHandle* handle, Address at) {
  if (const Answer answer = check(); answer != success) return answer;
  const auto* const base = reinterpret_cast<const std::byte*>(at);
  const auto found = device->look_up(base);
  if (!found.has_value() || found->base != base || found->kind != MemoryKind::device || in_pieces(base))
    return invalid_value;
  const Lent lent{device->number_of(base), owner,       found->device, device->descriptor(),
                  device->place_of(base),  found->bytes};
  *handle = {};
  std::memcpy(handle->bytes, &lent, sizeof lent);
  return success;
}

// As little as the driver does it open something else where what was there before is still open.
FAKE Answer cuIpcOpenMemHandle_v2(Address* at, IpcHandle handle, unsigned) {
  if (const Answer answer = check(); answer != success) return answer;
  ++opens;
  if (const long answer = number("FAKE_CUDA_OPEN", 0); answer != 0) return static_cast<Answer>(answer);
  Lent lent;
  std::memcpy(&lent, handle.bytes, sizeof lent);
  if (lent.process == owner) return invalid_context;  // one's own
  const std::lock_guard lock(opened_mutex);
  const std::tuple name{lent.process, lent.place, current.back()->device};
  if (const auto found = opened.find(name); found != opened.end()) {
    if (found->second.number != lent.number) return already_mapped;
    ++found->second.users;
    *at = found->second.at;
    return success;
  }
  const std::string path = "/proc/" + std::to_string(lent.process) + "/fd/" + std::to_string(lent.descriptor);
  const fabring::Descriptor descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (descriptor.fd() < 0) return invalid_value;
  std::byte* const mapped = device->adopt(descriptor.fd(), lent.place, lent.bytes, lent.device, 0);
  if (mapped == nullptr) return map_failed;
  *at = reinterpret_cast<Address>(mapped);
  opened[name] = {lent.number, *at, 1};
  const std::lock_guard mapped_lock(mapped_mutex);
  let_in[*at] = {current.back()->device};
  return success;
}

FAKE Answer cuIpcCloseMemHandle(Address at) {
  if (const Answer answer = check(); answer != success) return answer;
  device->wait_while_still();
  const std::lock_guard lock(opened_mutex);
  for (auto one = opened.begin(); one != opened.end(); ++one)
    if (one->second.at == at) {
      ++closes;
      if (--one->second.users > 0) return success;
      device->synchronize();
      {
        const std::lock_guard mapped_lock(mapped_mutex);
        let_in.erase(at);
      }
      device->disown(reinterpret_cast<std::byte*>(at));
      device->free_reserved(reinterpret_cast<std::byte*>(at));
      opened.erase(one);
      return success;
    }
  return invalid_value;
}

// For tests in this process: how often it asked for a handle to be opened.
FAKE unsigned long fake_cuda_opens() { return opens; }

// How often it closed one, and how many it has not closed.
FAKE unsigned long fake_cuda_closes() { return closes; }

FAKE unsigned long fake_cuda_open_handles() {
  const std::lock_guard lock(opened_mutex);
  unsigned long all = 0;
  for (const auto& [name, one] : opened) all += static_cast<unsigned long>(one.users);
  return all;
}

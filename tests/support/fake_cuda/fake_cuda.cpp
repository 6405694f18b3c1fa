// A libcuda.so.1 for tests: the functions of the CUDA driver that Fabring calls, over a FakeDevice. With its folder in
// LD_LIBRARY_PATH every process has GPUs whose memory crashes a processor that touches it. It is stricter than the
// driver: what needs a current context fails without one, and a query outside of the relaxed capture mode always fails,
// since it could break somebody's capture.
//
// FAKE_CUDA_DEVICES (2) and FAKE_CUDA_SEED (the process's number) say how many and in what order;
// FAKE_CUDA_MAJOR is their compute capability; FAKE_CUDA_ORDERING says how they see what cards write,
// FAKE_CUDA_PIECES=1 that all their memory is mapped piece by piece, FAKE_CUDA_NO_CARDS=1 that cards reach none of it;
// FAKE_CUDA_FAIL_AFTER=n breaks the device after n copies; with FAKE_CUDA_NO_BINARY=1 it is too old for any kernel.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "device/cuda/driver.hpp"
#include "tests/support/fake_device.hpp"

namespace fabring::cuda {
struct CUctx_st {
  int device = 0;
  int users = 0;
};
struct CUevent_st {
  std::unique_ptr<DeviceEvent> at;
};
struct CUfunc_st {
  std::string name;
  fixture::HostKernel kernel;  // null: the one that copies
};
}  // namespace fabring::cuda

using namespace fabring::cuda;
using fabring::MemoryKind;
using fabring::fixture::FakeDevice;

namespace {

constexpr Answer illegal_address = 700;
constexpr Answer capture_unsupported = 900;

FakeDevice* device = nullptr;  // for good: it has a thread
pid_t owner = 0;
std::vector<CUctx_st> contexts;
long copies_left = -1;

// What a handle of memory says. The driver's says nothing to anybody.
struct Lent {
  pid_t process;
  int device;
  int descriptor;
  std::size_t place, bytes;
};
static_assert(sizeof(Lent) <= sizeof(IpcHandle));
struct Opened {
  Address at;
  int users;
};
constexpr std::size_t granularity = std::size_t{2} << 20;
std::mutex opened_mutex;
std::map<std::pair<pid_t, std::size_t>, Opened> opened;  // by process and place in its memory
std::map<Address, int> pieces;                           // mapped one by one, and the descriptor of each
std::map<Address, std::size_t> reserved;                 // for pieces

bool in_pieces(const void* at) {
  const std::lock_guard lock(opened_mutex);
  return pieces.contains(reinterpret_cast<Address>(at));
}

// What was reserved around a piece. The driver, too, means that by the range of an address.
std::pair<Address, std::size_t> range_around(const fabring::MemoryFacts& found) {
  const Address at = reinterpret_cast<Address>(found.base);
  const std::lock_guard lock(opened_mutex);
  if (!pieces.contains(at)) return {at, found.bytes};
  return *std::prev(reserved.upper_bound(at));
}

thread_local std::vector<Context> current;
thread_local int capture_mode = 0;

long number(const char* name, long otherwise) {
  const char* const text = std::getenv(name);
  return text != nullptr ? std::strtol(text, nullptr, 10) : otherwise;
}

bool ready() { return device != nullptr && owner == ::getpid(); }

std::atomic<unsigned long> calls{0};

Answer check() {
  ++calls;
  if (!ready()) return not_initialized;
  return current.empty() ? invalid_context : success;
}

Answer answer_of(const fabring::Status& status) { return status.ok() ? success : illegal_address; }

}  // namespace

#define FAKE extern "C" __attribute__((visibility("default")))

FAKE Answer cuInit(unsigned) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const long count = number("FAKE_CUDA_DEVICES", 2);
  if (count == 0) return no_device;
  if (device != nullptr) return ready() ? success : not_initialized;
  owner = ::getpid();
  device = new FakeDevice(static_cast<std::uint64_t>(number("FAKE_CUDA_SEED", owner)), static_cast<int>(count));
  sigset_t all, before;  // signals are the program's
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([] { device->live(); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  contexts.resize(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < contexts.size(); ++i) contexts[i].device = static_cast<int>(i);
  copies_left = number("FAKE_CUDA_FAIL_AFTER", -1);
  return success;
}

FAKE Answer cuGetErrorName(Answer answer, const char** name) {
  *name = answer == illegal_address ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_OF_THE_FAKE";
  return success;
}

FAKE Answer cuGetErrorString(Answer, const char** text) {
  *text = "of the fake driver";
  return success;
}

FAKE Answer cuDeviceGetCount(int* count) {
  if (!ready()) return not_initialized;
  *count = static_cast<int>(contexts.size());
  return success;
}

FAKE Answer cuDeviceGet(Device* into, int number) {
  if (!ready()) return not_initialized;
  if (number < 0 || number >= static_cast<int>(contexts.size())) return 101;
  *into = number;
  return success;
}

FAKE Answer cuDeviceGetName(char* into, int length, Device) {
  std::snprintf(into, static_cast<std::size_t>(length), "fake GPU");
  return success;
}

FAKE Answer cuDeviceGetPCIBusId(char* into, int length, Device number) {
  std::snprintf(into, static_cast<std::size_t>(length), "0000:%02x:00.0", static_cast<unsigned>(number) + 1);
  return success;
}

FAKE Answer cuDeviceGetAttribute(int* value, int attribute, Device) {
  *value = 0;
  if (attribute == device_attribute_major) *value = static_cast<int>(number("FAKE_CUDA_MAJOR", 9));
  if (attribute == device_attribute_processors) *value = 3;
  if (attribute == device_attribute_writes_ordering) *value = static_cast<int>(number("FAKE_CUDA_ORDERING", 200));
  return success;
}

FAKE Answer cuDeviceTotalMem_v2(std::size_t* bytes, Device) {
  *bytes = std::size_t{8} << 30;
  return success;
}

FAKE Answer cuDevicePrimaryCtxRetain(Context* context, Device number) {
  if (!ready()) return not_initialized;
  *context = &contexts[static_cast<std::size_t>(number)];
  ++(*context)->users;
  return success;
}

FAKE Answer cuDevicePrimaryCtxGetState(Device number, unsigned* flags, int* active) {
  if (!ready()) return not_initialized;
  *flags = 0;
  *active = contexts[static_cast<std::size_t>(number)].users > 0 ? 1 : 0;
  return success;
}

FAKE Answer cuDevicePrimaryCtxRelease_v2(Device) { return success; }

FAKE Answer cuCtxPushCurrent_v2(Context context) {
  if (!ready()) return not_initialized;
  current.push_back(context);
  return success;
}

FAKE Answer cuCtxPopCurrent_v2(Context* context) {
  if (current.empty()) return invalid_context;
  *context = current.back();
  current.pop_back();
  return success;
}

FAKE Answer cuCtxGetDevice(Device* into) {
  if (current.empty()) return invalid_context;
  *into = current.back()->device;
  return success;
}

FAKE Answer cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return check();
}

FAKE Answer cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(*mode, capture_mode);
  return success;
}

FAKE Answer cuPointerGetAttributes(unsigned count, int* attributes, void** values, Address at) {
  if (!ready()) return not_initialized;
  const auto found = device->look_up(reinterpret_cast<const void*>(at));
  const bool ours = found.has_value() && found->kind != MemoryKind::host;
  for (unsigned i = 0; i < count; ++i) switch (attributes[i]) {
      case attribute_memory_type:
        *static_cast<unsigned*>(values[i]) = ours ? memory_type_device : 0;
        break;
      case attribute_is_managed:
        *static_cast<unsigned*>(values[i]) = ours && found->kind == MemoryKind::managed ? 1 : 0;
        break;
      case attribute_device_ordinal:
        *static_cast<int*>(values[i]) = ours ? found->device : -2;
        break;
      case attribute_range_start:
        *static_cast<Address*>(values[i]) = ours ? range_around(*found).first : 0;
        break;
      case attribute_range_size:
        *static_cast<std::size_t*>(values[i]) = ours ? range_around(*found).second : 0;
        break;
      case attribute_memory_block:
      case attribute_buffer_id:
        *static_cast<unsigned long long*>(values[i]) = ours ? device->number_of(reinterpret_cast<void*>(at)) : 0;
        break;
      case attribute_has_handle:
        *static_cast<unsigned*>(values[i]) = ours && !in_pieces(found->base) ? 1 : 0;
        break;
      case attribute_handle_types:
        *static_cast<unsigned long long*>(values[i]) = ours && in_pieces(found->base) ? handle_is_descriptor : 0;
        break;
      case attribute_for_cards:
        *static_cast<unsigned*>(values[i]) = ours && number("FAKE_CUDA_NO_CARDS", 0) == 0 ? 1 : 0;
        break;
      case attribute_pool:
        *static_cast<void**>(values[i]) = nullptr;
        break;
      default:
        return invalid_value;
    }
  return success;
}

FAKE Answer cuDeviceGetUuid_v2(Uuid* uuid, Device number) {
  *uuid = {"of the fake"};
  uuid->bytes[15] = static_cast<char>(number);
  return success;
}

// ---- between processes --------------------------------------------------------------------------------------------

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
  const Lent lent{owner, found->device, device->descriptor(), device->place_of(base), found->bytes};
  *handle = {};
  std::memcpy(handle->bytes, &lent, sizeof lent);
  return success;
}

FAKE Answer cuIpcOpenMemHandle_v2(Address* at, IpcHandle handle, unsigned) {
  if (const Answer answer = check(); answer != success) return answer;
  Lent lent;
  std::memcpy(&lent, handle.bytes, sizeof lent);
  if (lent.process == owner) return invalid_context;  // one's own
  const std::lock_guard lock(opened_mutex);
  if (const auto found = opened.find({lent.process, lent.place}); found != opened.end()) {
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
  opened[{lent.process, lent.place}] = {*at, 1};
  return success;
}

FAKE Answer cuIpcCloseMemHandle(Address at) {
  if (const Answer answer = check(); answer != success) return answer;
  const std::lock_guard lock(opened_mutex);
  for (auto one = opened.begin(); one != opened.end(); ++one)
    if (one->second.at == at) {
      if (--one->second.users > 0) return success;
      device->synchronize();
      device->disown(reinterpret_cast<std::byte*>(at));
      device->free_reserved(reinterpret_cast<std::byte*>(at));
      opened.erase(one);
      return success;
    }
  return invalid_value;
}

// Physical memory is a file of its own; its descriptor is its handle. As strict about lengths as the driver.
FAKE Answer cuMemCreate(Physical* piece, std::size_t bytes, const void*, unsigned long long) {
  if (const Answer answer = check(); answer != success) return answer;
  if (bytes == 0 || bytes % granularity != 0) return invalid_value;
  const int fd = memfd_create("piece of a fake device", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) return out_of_memory;
  *piece = static_cast<Physical>(fd);
  return success;
}

FAKE Answer cuMemRelease(Physical piece) { return ::close(static_cast<int>(piece)) == 0 ? success : invalid_value; }

FAKE Answer cuMemAddressReserve(Address* at, std::size_t bytes, std::size_t, Address, unsigned long long) {
  if (bytes == 0 || bytes % granularity != 0) return invalid_value;
  std::byte* const block = device->reserve(bytes);
  if (block == nullptr) return out_of_memory;
  *at = reinterpret_cast<Address>(block);
  const std::lock_guard lock(opened_mutex);
  reserved[*at] = bytes;
  return success;
}

FAKE Answer cuMemAddressFree(Address at, std::size_t) {
  {
    const std::lock_guard lock(opened_mutex);
    reserved.erase(at);
  }
  device->free_reserved(reinterpret_cast<std::byte*>(at));
  return success;
}

FAKE Answer cuMemMap(Address at, std::size_t bytes, std::size_t offset, Physical piece, unsigned long long) {
  if (const Answer answer = check(); answer != success) return answer;
  struct stat facts {};
  const int fd = static_cast<int>(piece);
  if (offset != 0 || ::fstat(fd, &facts) != 0 || static_cast<std::size_t>(facts.st_size) != bytes) return invalid_value;
  if (!device->adopt_at(reinterpret_cast<std::byte*>(at), fd, bytes, current.back()->device)) return invalid_value;
  const std::lock_guard lock(opened_mutex);
  pieces[at] = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
  return success;
}

FAKE Answer cuMemUnmap(Address at, std::size_t) {
  const std::lock_guard lock(opened_mutex);
  const auto found = pieces.find(at);
  if (found == pieces.end()) return invalid_value;
  ::close(found->second);
  pieces.erase(found);
  device->synchronize();
  device->disown(reinterpret_cast<std::byte*>(at));
  return success;
}

FAKE Answer cuMemSetAccess(Address, std::size_t, const Access* access, std::size_t count) {
  return count == 1 && access->location.type == location_device && access->flags == access_read_write ? success
                                                                                                      : invalid_value;
}

FAKE Answer cuMemRetainAllocationHandle(Physical* piece, void* at) {
  const std::lock_guard lock(opened_mutex);
  const auto found = pieces.find(reinterpret_cast<Address>(at));
  if (found == pieces.end()) return invalid_value;
  *piece = static_cast<Physical>(::fcntl(found->second, F_DUPFD_CLOEXEC, 3));
  return success;
}

FAKE Answer cuMemExportToShareableHandle(void* handle, Physical piece, int type, unsigned long long) {
  if (type != handle_is_descriptor) return not_supported;
  *static_cast<int*>(handle) = ::fcntl(static_cast<int>(piece), F_DUPFD_CLOEXEC, 3);
  return success;
}

FAKE Answer cuMemImportFromShareableHandle(Physical* piece, void* handle, int type) {
  if (type != handle_is_descriptor) return not_supported;
  const int fd = ::fcntl(static_cast<int>(reinterpret_cast<std::intptr_t>(handle)), F_DUPFD_CLOEXEC, 3);
  if (fd < 0) return invalid_value;
  *piece = static_cast<Physical>(fd);
  return success;
}

// ---- memory -------------------------------------------------------------------------------------------------------

namespace {

Answer allocate_pieces(Address* at, std::size_t bytes) {
  const std::size_t count = (bytes + granularity - 1) / granularity;
  Answer answer = cuMemAddressReserve(at, count * granularity, 0, 0, 0);
  for (std::size_t i = 0; i < count && answer == success; ++i) {
    Physical piece = 0;
    answer = cuMemCreate(&piece, granularity, nullptr, 0);
    if (answer == success) answer = cuMemMap(*at + i * granularity, granularity, 0, piece, 0);
    cuMemRelease(piece);
  }
  return answer;
}

bool free_pieces(Address at) {
  std::size_t bytes = 0;
  {
    const std::lock_guard lock(opened_mutex);
    const auto found = reserved.find(at);
    if (found == reserved.end()) return false;
    bytes = found->second;
  }
  for (std::size_t done = 0; done < bytes; done += granularity) cuMemUnmap(at + done, granularity);
  return cuMemAddressFree(at, bytes) == success;
}

}  // namespace

FAKE Answer cuMemAlloc_v2(Address* at, std::size_t bytes) {
  if (const Answer answer = check(); answer != success) return answer;
  if (number("FAKE_CUDA_PIECES", 0) != 0) return allocate_pieces(at, bytes);
  const auto block = device->allocate(current.back()->device, bytes);
  if (!block) return out_of_memory;
  *at = reinterpret_cast<Address>(*block);
  return success;
}

FAKE Answer cuMemFree_v2(Address at) {
  if (const Answer answer = check(); answer != success) return answer;
  device->synchronize();
  if (!free_pieces(at)) device->free(0, reinterpret_cast<std::byte*>(at));
  return success;
}

FAKE Answer cuMemHostAlloc(void** block, std::size_t bytes, unsigned) {
  if (const Answer answer = check(); answer != success) return answer;
  *block = device->allocate_pinned(bytes);
  return success;
}

FAKE Answer cuMemFreeHost(void* block) {
  if (const Answer answer = check(); answer != success) return answer;
  device->free_pinned(static_cast<std::byte*>(block));
  return success;
}

FAKE Answer cuMemcpyAsync(Address to, Address from, std::size_t bytes, Stream stream) {
  if (const Answer answer = check(); answer != success) return answer;
  if (copies_left >= 0 && copies_left-- == 0) device->break_down();
  return answer_of(
      device->copy(stream, reinterpret_cast<std::byte*>(to), reinterpret_cast<const std::byte*>(from), bytes));
}

// The image is not looked at: its kernels are compiled for the processor, by the same names.
FAKE Answer cuModuleLoadData(Module* module, const void* image) {
  if (const Answer answer = check(); answer != success) return answer;
  if (number("FAKE_CUDA_NO_BINARY", 0) != 0) return no_binary;
  *module = reinterpret_cast<Module>(const_cast<void*>(image));
  return success;
}

FAKE Answer cuModuleGetFunction(Function* function, Module, const char* name) {
  if (const Answer answer = check(); answer != success) return answer;
  const std::string_view full = name, prefix = "fabring_";
  if (!full.starts_with(prefix)) return not_found;
  const auto kernel = fabring::fixture::find_host_kernel(full.substr(prefix.size()));
  if (kernel == nullptr && full != "fabring_copy_and_tell") return not_found;
  static auto& functions = *new std::vector<std::unique_ptr<CUfunc_st>>();  // as long as their modules: the process
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  functions.push_back(std::make_unique<CUfunc_st>(CUfunc_st{std::string(full), kernel}));
  *function = functions.back().get();
  return success;
}

// Elements of at most 8 bytes: what a kernel may touch is count times that of its name, which ends with its bits.
FAKE Answer cuLaunchKernel(Function function, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned, unsigned,
                           unsigned, Stream stream, void** arguments, void**) {
  if (const Answer answer = check(); answer != success) return answer;
  if (blocks == 0 || threads == 0 || threads > 1024) return invalid_value;
  if (function->kernel == nullptr) {
    const auto& copies = *static_cast<const fabring::cuda::kernels::CopyTask*>(arguments[0]);
    if (blocks != fabring::cuda::kernels::blocks_of(copies)) return invalid_value;
    if (copies_left >= 0 && copies_left-- == 0) device->break_down();
    return answer_of(device->launch_copies(stream, copies));
  }
  const auto& task = *static_cast<const fabring::cuda::kernels::FoldTask*>(arguments[0]);
  std::size_t bits = 8;
  for (const std::size_t width : {64u, 32u, 16u})
    if (function->name.ends_with(std::to_string(width))) bits = width;
  return answer_of(device->launch(stream, function->kernel, task, bits / 8));
}

FAKE Answer cuStreamCreateWithPriority(Stream* stream, unsigned, int) {
  if (const Answer answer = check(); answer != success) return answer;
  *stream = reinterpret_cast<Stream>(device->open_stream(current.back()->device));
  return success;
}

FAKE Answer cuStreamDestroy_v2(Stream) { return check(); }

FAKE Answer cuStreamQuery(Stream stream) {
  if (const Answer answer = check(); answer != success) return answer;
  if (capture_mode != capture_relaxed) return capture_unsupported;
  const auto idle = device->is_idle(stream);
  if (!idle) return illegal_address;
  return *idle ? success : not_ready;
}

FAKE Answer cuStreamGetCtx(Stream stream, Context* context) {
  if (const Answer answer = check(); answer != success) return answer;
  *context = &contexts[static_cast<std::size_t>(device->device_of(stream))];
  return success;
}

FAKE Answer cuStreamIsCapturing(Stream stream, int* status) {
  if (const Answer answer = check(); answer != success) return answer;
  *status = device->captures(stream) ? 1 : not_capturing;
  return success;
}

FAKE Answer cuEventCreate(Event* event, unsigned) {
  if (const Answer answer = check(); answer != success) return answer;
  *event = new CUevent_st;
  return success;
}

FAKE Answer cuEventDestroy_v2(Event event) {
  delete event;
  return success;
}

FAKE Answer cuEventRecord(Event event, Stream stream) {
  if (const Answer answer = check(); answer != success) return answer;
  auto recorded = device->record(device->device_of(stream), stream);
  if (!recorded) return illegal_address;
  event->at = std::move(*recorded);
  return success;
}

FAKE Answer cuEventQuery(Event event) {
  if (const Answer answer = check(); answer != success) return answer;
  if (capture_mode != capture_relaxed) return capture_unsupported;
  if (!event->at) return success;
  const auto reached = event->at->reached();
  if (!reached) return illegal_address;
  return *reached ? success : not_ready;
}

// For tests in this process: what a CUDA program does itself.
FAKE void* fake_cuda_see(const void* at) { return device->see(at); }
FAKE unsigned long fake_cuda_calls() { return calls; }
FAKE void fake_cuda_stand_still(int on) { device->stand_still(on != 0); }
FAKE void fake_cuda_break() { device->break_down(); }
FAKE void fake_cuda_capture(Stream stream, int on) { device->capture(stream, on != 0); }

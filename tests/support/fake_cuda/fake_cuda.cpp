// A libcuda.so.1 for tests: the functions of the CUDA driver that Fabring calls, over a FakeDevice. With its folder in
// LD_LIBRARY_PATH every process has GPUs whose memory crashes a processor that touches it. It is stricter than the
// driver: what needs a current context fails without one, and a query outside of the relaxed capture mode always fails,
// since it could break somebody's capture.
//
// FAKE_CUDA_DEVICES (2) and FAKE_CUDA_SEED (the process's number) say how many and in what order;
// FAKE_CUDA_MAJOR is their compute capability; FAKE_CUDA_ORDERING says how they see what cards write,
// FAKE_CUDA_PIECES=1 that all their memory is mapped piece by piece, FAKE_CUDA_NO_CARDS=1 that cards reach none of it;
// FAKE_CUDA_FAIL_AFTER=n breaks the device after n copies; FAKE_CUDA_LOAD=n is its answer to any kernels,
// FAKE_CUDA_OPEN=n to any handle; FAKE_CUDA_NO_PEERS=1: no GPU reaches another's memory; FAKE_CUDA_MPS=0 or 1 is what
// it says of MPS, of which it knows nothing otherwise.

#include <csignal>
#include <cstdio>
#include <iterator>
#include <thread>

#include "tests/support/fake_cuda/fake_cuda.hpp"

namespace {

constexpr Answer peer_access_unsupported = 217;

std::atomic<Answer> answer_to_push{success};

// What was reserved around a piece. The driver, too, means that by the range of an address.
std::pair<Address, std::size_t> range_around(const fabring::MemoryFacts& found) {
  const Address at = reinterpret_cast<Address>(found.base);
  const std::lock_guard lock(mapped_mutex);
  if (!pieces.contains(at)) return {at, found.bytes};
  return *std::prev(reserved.upper_bound(at));
}

}  // namespace

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
  if (attribute == device_attribute_mps) *value = static_cast<int>(number("FAKE_CUDA_MPS", -1));
  if (*value < 0) return invalid_value;  // a driver that does not know the question
  if (attribute == device_attribute_major) *value = static_cast<int>(number("FAKE_CUDA_MAJOR", 9));
  if (attribute == device_attribute_processors) *value = 3;
  if (attribute == device_attribute_writes_ordering) *value = static_cast<int>(number("FAKE_CUDA_ORDERING", 200));
  return success;
}

FAKE Answer cuDeviceTotalMem_v2(std::size_t* bytes, Device) {
  *bytes = std::size_t{8} << 30;
  return success;
}

FAKE Answer cuDeviceCanAccessPeer(int* possible, Device one, Device other) {
  if (!ready()) return not_initialized;
  *possible = one != other && number("FAKE_CUDA_NO_PEERS", 0) == 0 ? 1 : 0;
  return success;
}

FAKE Answer cuCtxEnablePeerAccess(Context other, unsigned flags) {
  if (const Answer answer = check(); answer != success) return answer;
  if (flags != 0) return invalid_value;
  const int self = current.back()->device;
  int possible = 0;
  cuDeviceCanAccessPeer(&possible, self, other->device);
  if (possible == 0) return peer_access_unsupported;
  const std::lock_guard lock(mapped_mutex);
  return peers.insert({self, other->device}).second ? success : peer_access_enabled;
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
  if (const Answer answer = answer_to_push; answer != success) return answer;
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

// For tests in this process: what a CUDA program does itself.
FAKE void* fake_cuda_see(const void* at) { return device->see(at); }
FAKE unsigned long fake_cuda_calls() { return calls; }
FAKE void fake_cuda_stand_still(int on) { device->stand_still(on != 0); }
FAKE int fake_cuda_waiting() { return device->waiting(); }
FAKE void fake_cuda_refuse_contexts(Answer answer) { answer_to_push = answer; }  // 0: no more
FAKE void fake_cuda_break() { device->break_down(); }
// Another context of this device beside the primary one, as a green one is; for good.
FAKE Context fake_cuda_make_context(Device of) {
  return other_contexts.emplace_back(std::make_unique<CUctx_st>(CUctx_st{of, 1})).get();
}
FAKE void fake_cuda_capture(Stream stream, int on) { device->capture(stream, on != 0); }

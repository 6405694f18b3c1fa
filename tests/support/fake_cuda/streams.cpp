// Copies, kernels, streams and events.

#include <atomic>
#include <memory>
#include <string_view>

#include "tests/support/fake_cuda/fake_cuda.hpp"

namespace {

constexpr Answer invalid_handle = 400;
constexpr Answer capture_unsupported = 900;

// What a kernel of this device touches and may not, it crashes at: memory of another device that its context was not
// let in to. Memory of the host is what the fake says of it.
bool reaches(int self, const void* at) {
  const auto found = device->look_up(at);
  if (!found.has_value() || found->kind != MemoryKind::device) return true;
  const std::lock_guard lock(mapped_mutex);
  const auto some = let_in.find(reinterpret_cast<Address>(found->base));
  if (some != let_in.end()) return some->second.contains(self);
  return !pieces.contains(reinterpret_cast<Address>(found->base)) &&
         (found->device == self || peers.contains({self, found->device}));
}

}  // namespace

FAKE Answer cuMemcpyAsync(Address to, Address from, std::size_t bytes, Stream stream) {
  if (const Answer answer = check(); answer != success) return answer;
  if (copies_left >= 0 && copies_left-- == 0) device->break_down();
  return answer_of(
      device->copy(stream, reinterpret_cast<std::byte*>(to), reinterpret_cast<const std::byte*>(from), bytes));
}

static std::atomic<int> modules{0};  // loaded

FAKE int fake_cuda_modules() { return modules; }

// The image is not looked at: its kernels are compiled for the processor, by the same names.
FAKE Answer cuModuleLoadData(Module* module, const void* image) {
  if (const Answer answer = check(); answer != success) return answer;
  if (const long answer = number("FAKE_CUDA_LOAD", 0); answer != 0) return static_cast<Answer>(answer);
  *module = reinterpret_cast<Module>(const_cast<void*>(image));
  ++modules;
  return success;
}

FAKE Answer cuModuleUnload(Module) {
  const Answer answer = check();
  if (answer == success) --modules;
  return answer;
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
  const int self = device->device_of(stream);
  if (function->kernel == nullptr) {
    const auto& copies = *static_cast<const fabring::cuda::kernels::CopyTask*>(arguments[0]);
    if (blocks != fabring::cuda::kernels::blocks_of(copies)) return invalid_value;
    if (copies_left >= 0 && copies_left-- == 0) device->break_down();
    for (std::uint32_t i = 0; i < copies.piece_count; ++i)
      if (!reaches(self, copies.pieces[i].to) || !reaches(self, copies.pieces[i].from)) device->break_down();
    return answer_of(device->launch_copies(stream, copies));
  }
  const auto& task = *static_cast<const fabring::cuda::kernels::FoldTask*>(arguments[0]);
  bool within_reach = reaches(self, task.to);
  for (std::uint32_t i = 0; i < task.source_count; ++i) within_reach = within_reach && reaches(self, task.sources[i]);
  if (!within_reach) device->break_down();
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
  const bool is_default = reinterpret_cast<std::uintptr_t>(stream) <= 2;
  *context = is_default ? current.back() : &contexts[static_cast<std::size_t>(device->device_of(stream))];
  return success;
}

FAKE Answer cuStreamIsCapturing(Stream stream, int* status) {
  if (const Answer answer = check(); answer != success) return answer;
  *status = device->captures(stream) ? 1 : not_capturing;
  return success;
}

static std::atomic<int> events{0};  // that there are
static thread_local Context recorded_in = nullptr;

FAKE int fake_cuda_events() { return events; }
FAKE Context fake_cuda_recorded_in() { return recorded_in; }  // the last event of this thread

FAKE Answer cuEventCreate(Event* event, unsigned) {
  if (const Answer answer = check(); answer != success) return answer;
  *event = new CUevent_st{current.back(), nullptr};
  ++events;
  return success;
}

FAKE Answer cuEventDestroy_v2(Event event) {
  delete event;
  --events;
  return success;
}

FAKE Answer cuEventRecord(Event event, Stream stream) {
  if (const Answer answer = check(); answer != success) return answer;
  if (event->context != current.back()) return invalid_handle;
  recorded_in = current.back();
  auto recorded = device->record(stream == nullptr ? current.back()->device : device->device_of(stream), stream);
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

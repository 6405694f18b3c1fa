#include "device/cuda/cuda_runtime.hpp"

#include <fmt/format.h>
#include <link.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <map>
#include <mutex>
#include <utility>

#include "device/cuda/event_pool.hpp"
#include "device/cuda/gpudirect.hpp"
#include "device/cuda/kernels/images.hpp"
#include "device/cuda/lending.hpp"
#include "device/cuda/opened_memory.hpp"
#include "device/cuda/process_wide.hpp"
#include "device/cuda/queue.hpp"

namespace fabring {
namespace {

using namespace cuda;

// Libraries loaded by this process so far, whoever loaded them: cheap enough to ask before every operation.
unsigned long long libraries_loaded() {
  unsigned long long loads = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        *static_cast<unsigned long long*>(out) = info->dlpi_adds;
        return 1;
      },
      &loads);
  return loads;
}

// What was freed is unmapped or without access; both would crash whoever reads it.
bool readable(const void* at) {
  std::byte into;
  const iovec here{&into, 1};
  const iovec there{const_cast<void*>(at), 1};
  return process_vm_readv(::getpid(), &here, 1, &there, 1, 0) == 1 || errno != EFAULT;
}

// Of a stream of the primary context, or of another one, which may be gone before it: nothing is done in that one
// later.
class CudaEvent final : public DeviceEvent {
 public:
  CudaEvent(std::shared_ptr<EventPool> pool, Context primary, Event event, bool pooled)
      : pool_(std::move(pool)), primary_(primary), event_(event), pooled_(pooled) {}
  ~CudaEvent() override {
    if (pooled_) {
      pool_->give_back(primary_, event_);
    } else {
      const Entry entry(pool_->driver(), primary_);
      pool_->driver().cuEventDestroy_v2(event_);
    }
  }
  Result<bool> reached() override {
    const auto entry = Entry::into(pool_->driver(), primary_);
    if (!entry) return entry.error();
    const Answer answer = pool_->driver().cuEventQuery(event_);
    if (answer == success) return true;
    if (answer == not_ready) return false;
    return pool_->driver().error("cuEventQuery", answer);
  }

 private:
  const std::shared_ptr<EventPool> pool_;
  const Context primary_;
  const Event event_;
  const bool pooled_;
};

class CudaRuntime final : public DeviceRuntime {
 public:
  explicit CudaRuntime(std::function<void(const std::string&)> warn) : warn_(std::move(warn)) {}
  ~CudaRuntime() override {
    if (opened_ != nullptr && home_ == &ProcessWide::here()) opened_->end(this);  // not in the child of a fork
  }

  bool in_use() override {
    if (in_use_.load(std::memory_order_acquire)) return true;
    const unsigned long long loads = libraries_loaded();
    if (!loaded_.load(std::memory_order_acquire)) {
      if (loads == seen_loads_.load(std::memory_order_relaxed)) return false;
      std::lock_guard lock(mutex_);
      if (driver_ == nullptr) look_for_driver();
      seen_loads_.store(loads, std::memory_order_relaxed);  // after it: another thread goes by this alone
      if (driver_ == nullptr) return false;
    }
    int count = 0;
    if (driver_->cuDeviceGetCount(&count) != success) return false;  // nobody has called cuInit
    in_use_.store(true, std::memory_order_release);
    return true;
  }

  bool looks_up() override { return in_use() || unusable_.load(std::memory_order_acquire); }

  Result<MemoryFacts> look_up(const void* at) override {
    MemoryFacts facts;
    if (!in_use()) return unusable_.load(std::memory_order_acquire) ? look_up_without_driver(at) : facts;
    unsigned type = 0, managed = 0;
    int device = -1;
    Address start = 0;
    std::size_t bytes = 0;
    int attributes[] = {attribute_memory_type, attribute_is_managed, attribute_device_ordinal, attribute_range_start,
                        attribute_range_size};
    void* values[] = {&type, &managed, &device, &start, &bytes};
    int mode = capture_relaxed;
    driver_->cuThreadExchangeStreamCaptureMode(&mode);
    const Answer answer = driver_->cuPointerGetAttributes(5, attributes, values, address_of(at));
    driver_->cuThreadExchangeStreamCaptureMode(&mode);
    if (answer != success && answer != invalid_value && answer != not_initialized && answer != invalid_context)
      return driver_->error("cuPointerGetAttributes", answer);
    if (answer != success || (type != memory_type_device && managed == 0)) {
      if (type == memory_type_host || readable(at)) return facts;
      return Status(ErrorCode::device_error,
                    fmt::format("address {} is neither memory of the host nor of a living allocation of a GPU in this "
                                "process; was it freed, or does it belong to another process?",
                                at));
    }
    facts.kind = managed != 0 ? MemoryKind::managed : MemoryKind::device;
    facts.device = device;
    facts.base = reinterpret_cast<const std::byte*>(start);
    facts.bytes = bytes;
    return facts;
  }

  Result<std::unique_ptr<DeviceEvent>> record(int device, void* stream) override {
    auto primary = context_of(device);
    if (!primary) return primary.error();
    const auto handle = static_cast<Stream>(stream);
    auto found = context_of_stream(device, *primary, handle);
    if (!found) return found.error();
    const Context context = *found;
    const auto entry = Entry::into(*driver_, context);
    if (!entry) return entry.error();
    int capturing = not_capturing;
    Answer answer = driver_->cuStreamIsCapturing(handle, &capturing);
    if (answer == capture_implicit)
      return Status(
          ErrorCode::unsupported,
          "its stream is the default one, which must not be used while another stream is captured into a CUDA "
          "graph; pass the stream of the operation");
    if (answer != success) return driver_->error("cuStreamIsCapturing", answer);
    if (capturing != not_capturing)
      return Status(ErrorCode::unsupported,
                    "its stream is being captured into a CUDA graph, which cannot hold an operation that the "
                    "processor takes part in; call it outside of the capture");
    Event event = nullptr;
    answer = context == *primary ? pool_->take(context, event) : driver_->cuEventCreate(&event, event_without_timing);
    if (answer != success) return driver_->error("cuEventCreate", answer);
    auto moment = std::make_unique<CudaEvent>(pool_, *primary, event, context == *primary);
    answer = driver_->cuEventRecord(event, handle);
    if (answer != success) return driver_->error("cuEventRecord", answer);
    return std::unique_ptr<DeviceEvent>(std::move(moment));
  }

  Result<std::unique_ptr<DeviceQueue>> open_queue(int device) override {
    const auto entry = enter(device);
    if (!entry) return entry.error();
    int least = 0, greatest = 0;
    driver_->cuCtxGetStreamPriorityRange(&least, &greatest);
    Stream stream = nullptr;
    const Answer answer = driver_->cuStreamCreateWithPriority(&stream, stream_non_blocking, greatest);
    if (answer != success) return driver_->error("cuStreamCreateWithPriority", answer);
    return std::unique_ptr<DeviceQueue>(
        std::make_unique<CudaQueue>(pool_, ProcessWide::here().kernels_of(device, pool_), entry->context(), stream));
  }

  bool has_kernels() override { return !kernels::images().empty(); }

  Status load_kernels(int device) override {
    auto context = context_of(device);
    if (!context) return context.error();
    const auto kernels = ProcessWide::here().kernels_of(device, pool_);
    if (kernels->loaded()) return {};
    const auto entry = Entry::into(*driver_, *context);
    if (!entry) return entry.error();
    return kernels->load();
  }

  Result<DeviceShare::Facts> share(const std::byte* at, std::size_t bytes) override {
    return lending_.share(at, bytes);
  }

  Result<std::vector<Descriptor>> export_pieces(const DeviceShare::Facts& facts) override {
    return lending_.export_pieces(facts);
  }

  Result<std::shared_ptr<std::byte>> open_share(int device, const DeviceShare& share) override {
    auto context = context_of(device);
    if (!context) return context.error();
    if (share.facts.process == ProcessName::self()) return lending_.open_own(device, share.facts);
    return opened_->open(device, *context, share, warn_);
  }

  void forget(const ProcessName& process) override {
    if (loaded_.load()) opened_->forget(process);
  }

  Result<CardFacts> look_up_for_cards(const std::byte* at) override { return lending_.look_up_for_cards(at); }

  Result<Descriptor> export_pages(const std::byte* at, std::size_t bytes) override {
    return lending_.export_pages(at, bytes);
  }

  bool sees_remote_writes(int device) override {
    Device handle = 0;
    return in_use() && driver_->cuDeviceGet(&handle, device) == success && sees_writes_of_cards(*driver_, handle);
  }

  int device_in_use() override {
    if (!in_use()) return -1;
    Device current = 0;
    const bool some = driver_->cuCtxGetDevice(&current) == success;
    int count = 0, used = -1;
    driver_->cuDeviceGetCount(&count);
    for (int i = 0; i < count; ++i) {
      Device device = 0;
      unsigned flags = 0;
      int active = 0;
      if (driver_->cuDeviceGet(&device, i) != success) continue;
      if (some && device == current) return i;
      if (used < 0 && driver_->cuDevicePrimaryCtxGetState(device, &flags, &active) == success && active != 0) used = i;
    }
    return some ? -1 : used;
  }

  std::byte* allocate_pinned(std::size_t bytes) override {
    auto context = any_context();
    if (!context) return nullptr;
    const auto left = ProcessWide::here().take(ProcessWide::of_the_host, bytes);
    if (left.block != nullptr) return noted(left.block, left.bytes);
    const auto entry = Entry::into(*driver_, *context);
    if (!entry) return nullptr;
    void* block = nullptr;
    if (driver_->cuMemHostAlloc(&block, bytes, host_portable) != success) return nullptr;
    return noted(static_cast<std::byte*>(block), bytes);
  }

  // What is not freed yet is the first that is taken when memory is wanted, so that no more of it piles up while the
  // thread waits.
  void free_pinned(std::byte* block) override {
    const auto context = any_context();
    if (!context || home_ != &ProcessWide::here()) return;
    {
      std::lock_guard lock(mutex_);
      const auto node = pinned_.extract(block);
      if (!node) return;
      home_->leave(ProcessWide::of_the_host, block, node.mapped());
    }
    if (keeps_.load()) return;
    home_->closing().close([home = home_, pool = pool_, context = *context, block] {
      const auto entry = Entry::into(pool->driver(), context);
      if (entry && home->take(ProcessWide::of_the_host, block)) pool->driver().cuMemFreeHost(block);
    });
  }

  void keep_what_is_freed() override {
    keeps_.store(true);
    if (loaded_.load()) home_->closing().keep(this);
  }

  void free_again() override {
    keeps_.store(false);
    if (loaded_.load()) home_->closing().close_again(this);
  }

  Status begin() override {
    {
      std::lock_guard lock(mutex_);
      if (driver_ == nullptr) {
        auto driver = Driver::load();
        if (!driver) return driver.error();
        adopt(std::move(*driver));
      }
    }
    const Answer answer = driver_->cuInit(0);
    if (answer == no_device) return Status(ErrorCode::unavailable, "no GPU: the NVIDIA driver is here, but finds none");
    if (answer != success)
      return Status(ErrorCode::unavailable, "no GPU: " + driver_->error("cuInit", answer).message());
    in_use_.store(true, std::memory_order_release);
    return {};
  }

  Result<std::vector<DeviceFacts>> devices() override {
    std::vector<DeviceFacts> all;
    if (!in_use()) return all;
    int count = 0;
    if (const Answer answer = driver_->cuDeviceGetCount(&count); answer != success)
      return driver_->error("cuDeviceGetCount", answer);
    for (int i = 0; i < count; ++i) {
      Device device = 0;
      char name[256] = "", pci[32] = "";
      int major = 0, minor = 0, mps = 0;
      std::size_t bytes = 0;
      driver_->cuDeviceGet(&device, i);
      driver_->cuDeviceGetName(name, sizeof name, device);
      driver_->cuDeviceGetPCIBusId(pci, sizeof pci, device);
      driver_->cuDeviceGetAttribute(&major, device_attribute_major, device);
      driver_->cuDeviceGetAttribute(&minor, device_attribute_minor, device);
      driver_->cuDeviceTotalMem_v2(&bytes, device);
      all.push_back({i, name, pci, fmt::format("compute capability {}.{}, {} GiB", major, minor, bytes >> 30), {}});
      if (driver_->cuDeviceGetAttribute(&mps, device_attribute_mps, device) == success)
        all.back().side_by_side = mps != 0;
    }
    return all;
  }

  Result<std::byte*> allocate(int device, std::size_t bytes) override {
    auto context = context_of(device);
    if (!context) return context.error();
    if (const auto left = ProcessWide::here().take(device, bytes); left.block != nullptr) return left.block;
    const auto entry = Entry::into(*driver_, *context);
    if (!entry) return entry.error();
    Address at = 0;
    if (const Answer answer = driver_->cuMemAlloc_v2(&at, bytes); answer != success)
      return driver_->error("cuMemAlloc", answer);
    return reinterpret_cast<std::byte*>(at);
  }

  void free(int device, std::byte* block) override {
    const auto entry = enter(device);
    if (!entry) return;  // what its context had is gone with it, and by now the address may be of somebody else's
    Address base = 0;
    std::size_t bytes = 0;
    if (keeps_.load() && driver_->cuMemGetAddressRange_v2(&base, &bytes, address_of(block)) == success)
      return ProcessWide::here().leave(device, block, bytes);
    driver_->cuMemFree_v2(address_of(block));
  }

 private:
  std::byte* noted(std::byte* block, std::size_t bytes) {
    std::lock_guard lock(mutex_);
    pinned_[block] = bytes;
    return block;
  }

  // With mutex_ held. What a driver that is too old gave the program is not found out by asking it.
  void look_for_driver() {
    auto found = Driver::loaded();
    if (found && *found) return adopt(std::move(*found));
    if (found || unusable_.load(std::memory_order_relaxed)) return;
    why_unusable_ = found.error();
    unusable_.store(true, std::memory_order_release);
    if (warn_) warn_("GPU memory cannot be used: " + why_unusable_.message());
  }

  Result<MemoryFacts> look_up_without_driver(const void* at) const {
    if (readable(at)) return MemoryFacts();
    return Status(why_unusable_.code(), fmt::format("address {} is no memory of the host, and GPUs cannot be asked: {}",
                                                    at, why_unusable_.message()));
  }

  void adopt(std::unique_ptr<Driver> driver) {
    pool_ = ProcessWide::here().pool(std::move(driver));
    home_ = &ProcessWide::here();
    opened_ = &home_->opened();
    driver_ = &pool_->driver();
    opened_->begin(this);
    loaded_.store(true);
    if (keeps_.load()) home_->closing().keep(this);
  }

  // The primary context, as the CUDA runtime and PyTorch use it. Retained for as long as the process lives: releasing
  // it while the program ends would race with the driver's own end.
  Result<Context> context_of(int device) {
    const bool begun = in_use();
    if (!begun && unusable_.load(std::memory_order_acquire)) return why_unusable_;
    if (!begun)
      return Status(ErrorCode::invalid_argument,
                    "an operation on device memory, but this process has not begun to use CUDA (a child of fork() "
                    "cannot); pass memory of the host, or initialise CUDA first");
    std::lock_guard lock(mutex_);
    if (const auto found = contexts_.find(device); found != contexts_.end()) return found->second;
    Device handle = 0;
    Answer answer = driver_->cuDeviceGet(&handle, device);
    if (answer == invalid_device) return no_such_device(device);
    if (answer != success) return driver_->error("cuDeviceGet", answer);
    Context context = nullptr;
    answer = driver_->cuDevicePrimaryCtxRetain(&context, handle);
    if (answer != success) return driver_->error("cuDevicePrimaryCtxRetain", answer);
    return contexts_[device] = context;
  }

  Status no_such_device(int device) const {
    int count = 0;
    driver_->cuDeviceGetCount(&count);
    return {ErrorCode::invalid_argument,
            fmt::format("there is no GPU {}; those of this process are 0 to {}", device, count - 1)};
  }

  // 0, 1 and 2 name the default streams of the context that is current here: mostly the primary one, but a green
  // context has one of its own.
  Result<Context> context_of_stream(int device, Context primary, Stream stream) {
    const auto own_or_primary = [&] {
      Context own = nullptr;
      return driver_->cuStreamGetCtx(stream, &own) == success && own != nullptr ? own : primary;
    };
    if (is_default_stream(stream)) {
      Device current = -1;
      const bool is_of_this_device = driver_->cuCtxGetDevice(&current) == success && current == device;
      return is_of_this_device ? own_or_primary() : primary;
    }
    const auto entry = Entry::into(*driver_, primary);
    if (!entry) return entry.error();
    return own_or_primary();
  }

  Result<Entry> enter(int device) {
    const auto context = context_of(device);
    if (!context) return context.error();
    return Entry::into(*driver_, *context);
  }

  Result<Context> any_context() {
    {
      std::lock_guard lock(mutex_);
      if (!contexts_.empty()) return contexts_.begin()->second;
    }
    return Status(ErrorCode::device_error, "no GPU has been used yet");
  }

  const std::function<void(const std::string&)> warn_;
  std::mutex mutex_;
  Status why_unusable_;  // the driver's library that is loaded; written once, before unusable_
  std::atomic<bool> unusable_{false};
  std::shared_ptr<EventPool> pool_;           // once there, it stays
  const Driver* driver_ = nullptr;            // the pool's
  ProcessWide* home_ = nullptr;               // whose pool it is
  OpenedMemory* opened_ = nullptr;            // likewise
  std::map<int, Context> contexts_;           // under mutex_
  std::map<std::byte*, std::size_t> pinned_;  // likewise; blocks of the host's
  std::atomic<bool> loaded_{false};
  std::atomic<bool> in_use_{false};
  std::atomic<bool> keeps_{false};  // what is freed
  std::atomic<unsigned long long> seen_loads_{0};
  Lending lending_{{[this] { return in_use() ? driver_ : nullptr; }, [this](const void* at) { return look_up(at); },
                    [this](int device) { return enter(device); }}};
};

}  // namespace

std::shared_ptr<DeviceRuntime> make_cuda_runtime(std::function<void(const std::string&)> warn) {
  return std::make_shared<CudaRuntime>(std::move(warn));
}

bool host_may_have_gpus() {
  return ::access("/dev/nvidiactl", F_OK) == 0 || ::access("/dev/dxg", F_OK) == 0 || cuda::Driver::is_loadable();
}

}  // namespace fabring

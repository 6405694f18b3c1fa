// FakeDevice's streams and queues, and how what was given to them runs: some time, in pieces, in an order from the
// seed.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "device/cuda/kernel_choice.hpp"
#include "tests/support/fake_device.hpp"

namespace fabring::fixture {

class FakeDevice::Queue final : public DeviceQueue {
 public:
  Queue(FakeDevice& device, Line& line) : device_(device), line_(line) {}
  Status post_copy(std::byte* to, const std::byte* from, std::size_t bytes) override {
    const Lock lock(device_.mutex_);
    FABRING_TRY(device_.health());
    if (device_.refuse_ >= 0 && device_.refuse_-- == 0)
      return Status(ErrorCode::device_error, "fake copy: FAKE_ERROR_INVALID_VALUE");
    return device_.copy(&line_, to, from, bytes);
  }
  Status post_reduce(const DeviceReduction& what) override { return post(cuda::choose_kernel(what)); }
  Status post_scale(DataType type, std::byte* to, const std::byte* from, const void* factor,
                    std::size_t count) override {
    return post(cuda::choose_scaling(type, to, from, factor, count));
  }
  Status post_mark() override {
    const Lock lock(device_.mutex_);
    FABRING_TRY(device_.health());
    line_.work.emplace_back();
    return {};
  }
  Result<std::uint64_t> reached() override {
    const Lock lock(device_.mutex_);
    device_.step();
    FABRING_TRY(device_.health());
    return line_.marks;
  }

 private:
  Status post(const Result<cuda::KernelCall>& chosen) {
    if (!chosen) return chosen.error();
    if (chosen->task.count == 0) return {};
    FABRING_TRY(device_.load_kernels(line_.device));
    if (!chosen->kernel.empty())
      return device_.launch(&line_, find_host_kernel(chosen->kernel), chosen->task, chosen->element_bytes);
    return device_.copy(&line_, reinterpret_cast<std::byte*>(chosen->task.to),
                        reinterpret_cast<const std::byte*>(chosen->task.sources[0]),
                        chosen->task.count * chosen->element_bytes);
  }

  FakeDevice& device_;
  Line& line_;
};

class FakeDevice::Event final : public DeviceEvent {
 public:
  Event(FakeDevice& device, std::shared_ptr<bool> reached) : device_(device), reached_(std::move(reached)) {}
  Result<bool> reached() override {
    const Lock lock(device_.mutex_);
    device_.step();
    FABRING_TRY(device_.health());
    return *reached_;
  }

 private:
  FakeDevice& device_;
  std::shared_ptr<bool> reached_;
};

void* FakeDevice::open_stream(int device) {
  const Lock lock(mutex_);
  lines_.push_back(std::make_unique<Line>());
  lines_.back()->device = device;
  return lines_.back().get();
}

FakeDevice::Line* FakeDevice::line_of(void* stream) {
  return stream == nullptr ? &default_stream_ : static_cast<Line*>(stream);
}

void FakeDevice::enqueue(void* stream, std::function<void()> kernel) {
  const Lock lock(mutex_);
  Work work;
  work.kernel = std::move(kernel);
  line_of(stream)->work.push_back(std::move(work));
}

Status FakeDevice::copy(void* stream, std::byte* to, const std::byte* from, std::size_t bytes) {
  const Lock lock(mutex_);
  FABRING_TRY(health());
  if (bytes == 0) return {};
  Work work;
  work.to = to;
  work.from = from;
  work.bytes = bytes;
  line_of(stream)->work.push_back(std::move(work));
  ++copies_;
  copies_with_host_ += ours(to) && ours(from) ? 0 : 1;
  bytes_copied_ += bytes;
  return {};
}

// As the grid of a real one, which is smaller than the data, so that threads go round.
Status FakeDevice::launch(void* stream, HostKernel kernel, const cuda::kernels::FoldTask& task,
                          std::size_t element_bytes) {
  const Lock lock(mutex_);
  FABRING_TRY(health());
  if (kernel == nullptr) return Status(ErrorCode::internal, "the fake device has no such kernel");
  Work work;
  work.grid = kernel;
  work.task = task;
  work.bytes = task.count * element_bytes;
  const std::uint64_t useful = cuda::kernels::threads_of(task, element_bytes);
  work.threads = 1 + chance_() % std::min<std::uint64_t>(useful + 2, 512);
  work.first_thread = chance_() % work.threads;
  line_of(stream)->work.push_back(std::move(work));
  ++kernels_;
  return {};
}

int FakeDevice::device_of(void* stream) { return line_of(stream)->device; }

bool FakeDevice::captures(void* stream) { return line_of(stream)->captured; }

void FakeDevice::hold(void* stream) {
  const Lock lock(mutex_);
  Work work;
  work.blocks = true;
  line_of(stream)->work.push_back(std::move(work));
}

void FakeDevice::release(void* stream) {
  const Lock lock(mutex_);
  for (Work& work : line_of(stream)->work) work.blocks = false;
}

void FakeDevice::capture(void* stream, bool on) { line_of(stream)->captured = on; }

Result<std::unique_ptr<DeviceEvent>> FakeDevice::record(int device, void* stream) {
  const Lock lock(mutex_);
  FABRING_TRY(health());
  if (device < 0 || device >= device_count_)
    return Status(ErrorCode::device_error, fmt::format("there is no GPU {}", device));
  Line& line = *line_of(stream);
  if (line.captured) return Status(ErrorCode::unsupported, "its stream is being captured into a graph");
  Work mark;
  mark.event = std::make_shared<bool>(false);
  auto event = std::make_unique<Event>(*this, mark.event);
  line.work.push_back(std::move(mark));
  return std::unique_ptr<DeviceEvent>(std::move(event));
}

Result<std::unique_ptr<DeviceQueue>> FakeDevice::open_queue(int device) {
  const Lock lock(mutex_);
  FABRING_TRY(health());
  if (device < 0 || device >= device_count_)
    return Status(ErrorCode::device_error, fmt::format("there is no GPU {}", device));
  return std::unique_ptr<DeviceQueue>(std::make_unique<Queue>(*this, *static_cast<Line*>(open_stream(device))));
}

Status FakeDevice::load_kernels(int) {
  return has_kernels_ ? Status() : Status(ErrorCode::unavailable, "the fake device has no kernels");
}

Result<std::vector<DeviceFacts>> FakeDevice::devices() {
  std::vector<DeviceFacts> all;
  for (int i = 0; i < device_count_; ++i) all.push_back({i, "fake device", "0000:00:00.0", "made of memory"});
  return all;
}

// ---- running ------------------------------------------------------------------------------------------------------

Status FakeDevice::health() const { return broken_.empty() ? Status() : Status(ErrorCode::device_error, broken_); }

void FakeDevice::break_down() {
  const Lock lock(mutex_);
  broken_ = "FAKE_ERROR_ILLEGAL_ADDRESS";
  for (auto& line : lines_) line->work.clear();
}

std::size_t FakeDevice::busy() const {
  const Lock lock(mutex_);
  return static_cast<std::size_t>(
      std::count_if(lines_.begin(), lines_.end(), [](const auto& line) { return !line->work.empty(); }));
}

void FakeDevice::step() {
  for (auto steps = chance_() % 4; steps > 0; --steps) (void)step_one();
}

void FakeDevice::synchronize() {
  const Lock lock(mutex_);
  while (step_one()) {
  }
}

bool FakeDevice::step_one() {
  if (!broken_.empty()) return false;
  std::vector<Line*> ready;
  const auto look = [&](Line& line) {
    if (!line.work.empty() && !line.work.front().blocks) ready.push_back(&line);
  };
  look(default_stream_);
  for (auto& line : lines_) look(*line);
  if (ready.empty()) return false;
  run(*ready[chance_() % ready.size()]);
  return true;
}

std::byte* FakeDevice::resolve(const std::byte* at, std::size_t bytes) {
  if (!ours(at)) return const_cast<std::byte*>(at);
  // Pieces that were mapped side by side are one.
  const auto end = reinterpret_cast<std::uintptr_t>(at) + bytes;
  const auto* found = allocation_of(reinterpret_cast<std::uintptr_t>(at));
  while (found != nullptr && found->first + found->second.bytes < end)
    found = allocation_of(found->first + found->second.bytes);
  if (found == nullptr) {
    break_down();
    return nullptr;
  }
  return see(at);
}

// Some threads of a grid, beginning anywhere; true if those were the last. The addresses are looked at each time:
// memory that was freed meanwhile is none.
bool FakeDevice::run_some(Work& work) {
  cuda::kernels::FoldTask task = work.task;
  const std::size_t bytes = work.bytes;
  const auto visible = [&](const unsigned char* at) {
    return reinterpret_cast<unsigned char*>(resolve(reinterpret_cast<const std::byte*>(at), bytes));
  };
  for (std::uint32_t i = 0; i < task.source_count; ++i)
    if ((task.sources[i] = visible(task.sources[i])) == nullptr) return false;
  if ((task.to = visible(task.to)) == nullptr) return false;
  for (auto some = 1 + chance_() % (1 + work.threads / 2); some > 0 && work.threads_run < work.threads; --some)
    work.grid(task, (work.first_thread + work.threads_run++) % work.threads, work.threads);
  return work.threads_run == work.threads;
}

// A copy goes on at either end, a piece at a time.
void FakeDevice::run(Line& line) {
  Work& work = line.work.front();
  if (work.grid != nullptr) {
    if (!run_some(work)) return;
  } else if (work.bytes > 0) {
    const std::size_t most = std::max<std::size_t>(std::min<std::size_t>(work.bytes, 64), work.bytes / 3);
    const std::size_t piece = 1 + chance_() % most;
    const std::size_t at = chance_() % 2 == 0 ? 0 : work.bytes - piece;
    std::byte* const to = resolve(work.to + at, piece);
    const std::byte* const from = to != nullptr ? resolve(work.from + at, piece) : nullptr;
    if (from == nullptr) return;  // broken, and `work` with it
    std::memcpy(to, from, piece);
    if (at == 0) {
      work.to += piece;
      work.from += piece;
    }
    work.bytes -= piece;
    if (work.bytes > 0) return;
  } else if (work.kernel) {
    work.kernel();
  } else if (work.event) {
    *work.event = true;
  } else if (work.to == nullptr) {
    ++line.marks;
  }
  line.work.pop_front();
}

}  // namespace fabring::fixture

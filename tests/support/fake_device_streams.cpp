// FakeDevice's streams and queues, and how what was given to them runs: some time, in pieces, in an order from the
// seed.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "device/cuda/kernel_choice.hpp"
#include "tests/support/fake_device.hpp"

namespace fabring::fixture {

class FakeDevice::Queue final : public DeviceQueue {
 public:
  Queue(FakeDevice& device, Line& line) : device_(device), line_(line) {}
  Status post_copy(std::byte* to, const std::byte* from, std::size_t bytes) override {
    const Lock lock(device_.mutex_);
    FABRING_TRY(device_.refuses());
    return device_.copy(&line_, to, from, bytes);
  }
  Status post_reduce(const DeviceReduction& what) override { return post(cuda::choose_kernel(what)); }
  Status post_scale(DataType type, std::byte* to, const std::byte* from, const void* factor,
                    std::size_t count) override {
    return post(cuda::choose_scaling(type, to, from, factor, count));
  }
  Status post_copies_and_mark(std::span<const DeviceCopy> copies) override {
    const auto task = device_.has_kernels_ ? cuda::choose_copies(copies) : std::nullopt;
    if (!task) {
      for (const DeviceCopy& copy : copies) FABRING_TRY(post_copy(copy.to, copy.from, copy.bytes));
      return post_mark();
    }
    const Lock lock(device_.mutex_);
    FABRING_TRY(device_.refuses());
    return device_.launch_copies(&line_, *task);
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

void* FakeDevice::default_stream(int device) { return &default_streams_[static_cast<std::size_t>(device)]; }

FakeDevice::Line* FakeDevice::line_of(void* stream) {
  return static_cast<Line*>(stream == nullptr ? default_stream(0) : stream);
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

Status FakeDevice::launch_copies(void* stream, const cuda::kernels::CopyTask& task) {
  const Lock lock(mutex_);
  FABRING_TRY(health());
  Work work;
  work.copies = task;
  work.threads = std::uint64_t{cuda::kernels::blocks_of(task)} * cuda::kernels::threads_per_block;
  work.first_thread = chance_() % work.threads;
  line_of(stream)->work.push_back(std::move(work));
  ++copying_kernels_;
  if (task.told != nullptr) {
    ++telling_;
    // Most are over before anybody looks, for a thread that waits for a processor takes milliseconds; not all.
    for (auto steps = chance_() % 64; steps > 0 && telling_ > 0 && step_one(); --steps) {
    }
    if (telling_ > 0) told_of_work_.notify_one();
  }
  for (std::uint32_t i = 0; i < task.piece_count; ++i) bytes_copied_ += task.pieces[i].units * task.unit_bytes;
  return {};
}

Result<bool> FakeDevice::is_idle(void* stream) {
  const Lock lock(mutex_);
  step();
  FABRING_TRY(health());
  return line_of(stream)->work.empty();
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
    return Status(ErrorCode::invalid_argument, fmt::format("there is no GPU {}", device));
  Line& line = *line_of(stream == nullptr ? default_stream(device) : stream);
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
    return Status(ErrorCode::invalid_argument, fmt::format("there is no GPU {}", device));
  Line& line = *static_cast<Line*>(open_stream(device));
  line.is_queue = true;
  return std::unique_ptr<DeviceQueue>(std::make_unique<Queue>(*this, line));
}

Status FakeDevice::load_kernels(int) {
  return has_kernels_ ? Status() : Status(ErrorCode::unavailable, "the fake device has no kernels");
}

Result<std::vector<DeviceFacts>> FakeDevice::devices() {
  std::vector<DeviceFacts> all;
  for (int i = 0; i < device_count_; ++i) all.push_back({i, "fake device", "0000:00:00.0", "made of memory", {}});
  return all;
}

// ---- running ------------------------------------------------------------------------------------------------------

Status FakeDevice::refuses() {
  FABRING_TRY(health());
  return refuse_ >= 0 && refuse_-- == 0 ? Status(ErrorCode::device_error, "fake copy: FAKE_ERROR_INVALID_VALUE")
                                        : Status();
}

Status FakeDevice::health() const { return broken_.empty() ? Status() : Status(ErrorCode::device_error, broken_); }

void FakeDevice::break_down() {
  const Lock lock(mutex_);
  broken_ = "FAKE_ERROR_ILLEGAL_ADDRESS";
  for (auto& line : lines_) line->work.clear();
  telling_ = 0;
}

void FakeDevice::stand_still(bool on) {
  const Lock lock(mutex_);
  still_ = on;
  goes_on_.notify_all();
}

void FakeDevice::hold_queues(bool on) {
  const Lock lock(mutex_);
  queues_held_ = on;
}

void FakeDevice::wait_while_still() {
  Lock lock(mutex_);
  ++waiting_;
  goes_on_.wait(lock, [this] { return !still_; });
  --waiting_;
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

void FakeDevice::live() {
  for (;;) {
    {
      Lock lock(mutex_);
      told_of_work_.wait(lock, [this] { return telling_ > 0; });
      for (auto steps = chance_() % 32; steps > 0 && step_one(); --steps) {
      }
    }
    std::this_thread::yield();
  }
}

bool FakeDevice::step_one() {
  if (!broken_.empty() || still_) return false;
  std::vector<Line*> ready;
  const auto look = [&](Line& line) {
    const bool held = queues_held_ && line.is_queue;
    if (!held && !line.work.empty() && !line.work.front().blocks) ready.push_back(&line);
  };
  for (Line& line : default_streams_) look(line);
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

// Likewise. A block tells as soon as its threads have run, whatever others of the grid have done.
bool FakeDevice::copy_some(Work& work) {
  cuda::kernels::CopyTask task = *work.copies;
  for (std::uint32_t i = 0; i < task.piece_count; ++i) {
    auto& piece = task.pieces[i];
    const std::size_t bytes = piece.units * task.unit_bytes;
    std::byte* const to = resolve(reinterpret_cast<const std::byte*>(piece.to), bytes);
    const std::byte* const from =
        to != nullptr ? resolve(reinterpret_cast<const std::byte*>(piece.from), bytes) : nullptr;
    if (from == nullptr) return false;
    piece.to = reinterpret_cast<unsigned char*>(to);
    piece.from = reinterpret_cast<const unsigned char*>(from);
  }
  constexpr std::uint64_t per_block = cuda::kernels::threads_per_block;
  const std::uint64_t blocks = work.threads / per_block, first = work.first_thread % blocks;
  for (auto some = 1 + chance_() % work.threads; some > 0 && work.threads_run < work.threads; --some) {
    const std::uint64_t block = (first + work.threads_run / per_block) % blocks;
    const std::uint64_t thread = (work.first_thread + work.threads_run) % per_block;
    cuda::kernels::copy_pieces(task, block * per_block + thread, work.threads);
    if (++work.threads_run % per_block == 0 && task.told != nullptr)
      std::atomic_ref(task.told[block]).store(task.number, std::memory_order_release);
  }
  return work.threads_run == work.threads;
}

// A copy goes on at either end, a piece at a time.
void FakeDevice::run(Line& line) {
  Work& work = line.work.front();
  if (work.grid != nullptr) {
    if (!run_some(work)) return;
  } else if (work.copies) {
    if (!copy_some(work)) return;
    if (work.copies->told == nullptr) {
      ++line.marks;
    } else {
      --telling_;
    }
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

#include "tests/support/fake_device.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "device/cuda/kernel_choice.hpp"

namespace fabring::fixture {
namespace {

constexpr std::size_t arena_bytes = std::size_t{8} << 30;  // of addresses; pages come when they are used
constexpr std::size_t alignment = 256;
constexpr int scrambled = 0xee;

}  // namespace

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

FakeDevice::FakeDevice(std::uint64_t seed, int devices)
    : chance_(seed), device_count_(devices), memory_(memfd_create("fake device", MFD_CLOEXEC)) {
  const int sized = ftruncate(memory_, static_cast<off_t>(arena_bytes));
  void* const front = mmap(nullptr, arena_bytes, PROT_NONE, MAP_SHARED, memory_, 0);
  void* const back = mmap(nullptr, arena_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memory_, 0);
  if (sized != 0 || front == MAP_FAILED || back == MAP_FAILED) {
    std::fprintf(stderr, "no memory for a fake device\n");
    std::abort();
  }
  front_ = static_cast<std::byte*>(front);
  back_ = static_cast<std::byte*>(back);
}

FakeDevice::~FakeDevice() {
  while (!adopted_.empty()) free_reserved(adopted_.back().front);
  munmap(front_, arena_bytes);
  munmap(back_, arena_bytes);
  close(memory_);
  for (const auto& [block, bytes] : pinned_) std::free(block);
}

// ---- memory -------------------------------------------------------------------------------------------------------

std::byte* FakeDevice::see(const void* at) const {
  auto* const byte = const_cast<std::byte*>(static_cast<const std::byte*>(at));
  if (byte >= front_ && byte < front_ + arena_bytes) return back_ + (byte - front_);
  const Lock lock(mutex_);
  for (const Adopted& part : adopted_)
    if (byte >= part.front && byte < part.front + part.bytes) return part.back + (byte - part.front);
  return byte;
}

// Addresses are never used twice: who keeps one too long is found out.
std::byte* FakeDevice::place(int device, std::size_t bytes, MemoryKind kind) {
  const Lock lock(mutex_);
  std::byte* const at = front_ + used_;
  used_ += (bytes + 2 * alignment - 1) / alignment * alignment;
  if (used_ > arena_bytes) return nullptr;
  alive_[reinterpret_cast<std::uintptr_t>(at)] = {bytes, device, kind, ++allocations_, for_cards_};
  return at;
}

void FakeDevice::exchange(std::byte* block) {
  const Lock lock(mutex_);
  alive_.at(reinterpret_cast<std::uintptr_t>(block)).number = ++allocations_;
  std::memset(see(block), scrambled, alive_.at(reinterpret_cast<std::uintptr_t>(block)).bytes);
}

Result<std::byte*> FakeDevice::allocate(int device, std::size_t bytes) {
  std::byte* const at = place(device, bytes, MemoryKind::device);
  if (at == nullptr) return Status(ErrorCode::out_of_memory, "the fake device has no memory left");
  const Lock lock(mutex_);
  if (in_pieces_ > 0)
    alive_.at(reinterpret_cast<std::uintptr_t>(at)).in_pieces = bytes > 1 && chance_() % 100 < in_pieces_;
  return at;
}

std::byte* FakeDevice::allocate_managed(int device, std::size_t bytes) {
  return place(device, bytes, MemoryKind::managed);
}

void FakeDevice::free(int, std::byte* block) {
  const Lock lock(mutex_);
  const auto found = alive_.find(reinterpret_cast<std::uintptr_t>(block));
  if (found == alive_.end()) return;
  std::memset(see(block), scrambled, found->second.bytes);
  alive_.erase(found);
}

const std::pair<const std::uintptr_t, FakeDevice::Allocation>* FakeDevice::allocation_of(std::uintptr_t at) const {
  auto next = alive_.upper_bound(at);
  if (next == alive_.begin()) return nullptr;
  --next;
  return at < next->first + next->second.bytes ? &*next : nullptr;
}

Result<MemoryFacts> FakeDevice::look_up(const void* at) {
  const Lock lock(mutex_);
  FABRING_TRY(health());
  MemoryFacts facts;
  if (!ours(at)) return facts;
  const auto* found = allocation_of(reinterpret_cast<std::uintptr_t>(at));
  if (found == nullptr)
    return Status(ErrorCode::device_error, fmt::format("address {} is of no living allocation; was it freed?", at));
  facts.kind = found->second.kind;
  facts.device = found->second.device;
  facts.base = reinterpret_cast<const std::byte*>(found->first);
  facts.bytes = found->second.bytes;
  return facts;
}

Result<CardFacts> FakeDevice::look_up_for_cards(const std::byte* at) {
  const Lock lock(mutex_);
  const auto facts = look_up(at);
  if (!facts) return facts.error();
  const auto* found = allocation_of(reinterpret_cast<std::uintptr_t>(at));
  if (found == nullptr) return Status(ErrorCode::device_error, "memory of the host is no GPU's");
  if (found->second.kind == MemoryKind::managed || !found->second.for_cards)
    return Status(ErrorCode::unsupported, "no network card may reach this memory: the fake says so");
  return CardFacts{facts->device, facts->base, facts->bytes, found->second.number};
}

Result<Descriptor> FakeDevice::export_pages(const std::byte* at, std::size_t bytes) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  if (reinterpret_cast<std::uintptr_t>(at) % page != 0 || bytes % page != 0)
    return Status(ErrorCode::unsupported, "a dmabuf has whole pages");
  return Descriptor(dup(memory_));
}

std::uint64_t FakeDevice::number_of(const void* at) const {
  const Lock lock(mutex_);
  const auto* found = allocation_of(reinterpret_cast<std::uintptr_t>(at));
  return found != nullptr ? found->second.number : 0;
}

std::byte* FakeDevice::adopt(int descriptor, std::size_t offset, std::size_t bytes, int device, std::uint64_t number) {
  const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE)), before = offset % page;
  const auto from = static_cast<off_t>(offset - before);
  void* const front = mmap(nullptr, before + bytes, PROT_NONE, MAP_SHARED, descriptor, from);
  void* const back = mmap(nullptr, before + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, from);
  if (front == MAP_FAILED || back == MAP_FAILED) return nullptr;
  const Lock lock(mutex_);
  adopted_.push_back({static_cast<std::byte*>(front), static_cast<std::byte*>(back), before + bytes});
  std::byte* const at = adopted_.back().front + before;
  alive_[reinterpret_cast<std::uintptr_t>(at)] = {bytes, device, MemoryKind::device, number};
  return at;
}

std::byte* FakeDevice::reserve(std::size_t bytes) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const front = mmap(nullptr, bytes, PROT_NONE, flags, -1, 0);
  void* const back = mmap(nullptr, bytes, PROT_NONE, flags, -1, 0);
  if (front == MAP_FAILED || back == MAP_FAILED) return nullptr;
  const Lock lock(mutex_);
  adopted_.push_back({static_cast<std::byte*>(front), static_cast<std::byte*>(back), bytes});
  return adopted_.back().front;
}

bool FakeDevice::adopt_at(std::byte* at, int descriptor, std::size_t bytes, int device) {
  const Lock lock(mutex_);
  std::byte* const back = see(at);
  if (back == at) return false;
  if (mmap(at, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, descriptor, 0) == MAP_FAILED ||
      mmap(back, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptor, 0) == MAP_FAILED)
    return false;
  alive_[reinterpret_cast<std::uintptr_t>(at)] = {bytes, device, MemoryKind::device, ++allocations_};
  return true;
}

void FakeDevice::disown(std::byte* at) {
  const Lock lock(mutex_);
  const auto found = alive_.find(reinterpret_cast<std::uintptr_t>(at));
  if (found == alive_.end()) return;
  for (std::byte* const mapping : {at, see(at)})
    mmap(mapping, found->second.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  alive_.erase(found);
}

void FakeDevice::free_reserved(std::byte* at) {
  const Lock lock(mutex_);
  std::erase_if(adopted_, [&](const Adopted& part) {
    if (at < part.front || at >= part.front + part.bytes) return false;
    munmap(part.front, part.bytes);
    munmap(part.back, part.bytes);
    return true;
  });
}

// Among threads of one process, which is all that a FakeDevice of its own serves.
Result<DeviceShare::Facts> FakeDevice::share(const std::byte* at, std::size_t bytes) {
  const Lock lock(mutex_);
  FABRING_TRY(health());
  const auto* found = allocation_of(reinterpret_cast<std::uintptr_t>(at));
  if (found == nullptr) return Status(ErrorCode::device_error, "no living allocation is to be shared");
  if (found->second.kind != MemoryKind::device ||
      reinterpret_cast<std::uintptr_t>(at) + bytes > found->first + found->second.bytes)
    return Status(ErrorCode::unsupported, "this memory cannot be shared");
  DeviceShare::Facts facts;
  facts.process = ProcessName::self();
  facts.base = found->first;
  facts.bytes = found->second.bytes;
  facts.offset = reinterpret_cast<std::uintptr_t>(at) - found->first;
  facts.allocation = found->second.number;
  if (!found->second.in_pieces) return facts;
  facts.allocation = 0;
  facts.pieces = 2;
  facts.piece_bytes = {facts.bytes / 2, facts.bytes - facts.bytes / 2};
  facts.piece_numbers = {2 * found->second.number, 2 * found->second.number + 1};
  return facts;
}

Result<std::vector<Descriptor>> FakeDevice::export_pieces(const DeviceShare::Facts& facts) {
  const Lock lock(mutex_);
  FABRING_TRY(health());
  if (number_of(reinterpret_cast<const void*>(facts.base)) != facts.piece_numbers[0] / 2)
    return Status(ErrorCode::unsupported, "these pieces are not there any more");
  std::vector<Descriptor> descriptors;
  ++exports_;
  for (std::uint64_t i = 0; i < facts.pieces; ++i) descriptors.emplace_back(dup(memory_));
  return descriptors;
}

Result<std::shared_ptr<std::byte>> FakeDevice::open_share(int, const DeviceShare& share) {
  const Lock lock(mutex_);
  FABRING_TRY(health());
  if (chance_() % 100 < unopenable_) return Status(ErrorCode::unsupported, "the fake device does not reach it");
  auto* const at = reinterpret_cast<std::byte*>(share.facts.base + share.facts.offset);
  const bool in_pieces = share.facts.pieces > 0;
  const std::uint64_t number = in_pieces ? share.facts.piece_numbers[0] / 2 : share.facts.allocation;
  if (share.facts.process != ProcessName::self() || number_of(at) != number)
    return Status(ErrorCode::device_error, "what is to be opened is no living allocation");
  if (in_pieces && share.descriptors.size() != share.facts.pieces) {
    if (stays_open_[number] == 0) return Status(ErrorCode::unavailable, "these pieces are not open");
    if (!stay_open_) --stays_open_[number];
  } else if (in_pieces) {
    stays_open_[number] = stay_open_ ? 1 : static_cast<unsigned>(chance_() % 8);
  }
  return std::shared_ptr<std::byte>(at, [](std::byte*) {});
}

std::byte* FakeDevice::allocate_pinned(std::size_t bytes) {
  const Lock lock(mutex_);
  auto* const block = static_cast<std::byte*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
  std::memset(block, scrambled, bytes);
  pinned_[block] = bytes;
  pinned_bytes_ += bytes;
  return block;
}

void FakeDevice::free_pinned(std::byte* block) {
  const Lock lock(mutex_);
  const auto found = pinned_.find(block);
  if (found == pinned_.end()) {
    std::fprintf(stderr, "fake device: memory is freed as pinned that is not\n");
    std::abort();
  }
  synchronize();  // as the driver does
  pinned_bytes_ -= found->second;
  pinned_.erase(found);
  std::free(block);
}

// ---- streams ------------------------------------------------------------------------------------------------------

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

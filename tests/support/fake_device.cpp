#include "tests/support/fake_device.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace fabring::fixture {
namespace {

constexpr std::size_t arena_bytes = std::size_t{8} << 30;  // of addresses; pages come when they are used
constexpr std::size_t alignment = 256;
constexpr int scrambled = 0xee;

}  // namespace

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
  for (int i = 0; i < devices; ++i) default_streams_.emplace_back().device = i;
}

FakeDevice::~FakeDevice() {
  while (!adopted_.empty()) free_reserved(adopted_.back().front);
  munmap(front_, arena_bytes);
  munmap(back_, arena_bytes);
  close(memory_);
  for (const auto& [block, bytes] : pinned_) std::free(block);
}

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
  alive_[reinterpret_cast<std::uintptr_t>(at)] = {bytes, device, kind, ++allocations_, for_cards_, for_others_};
  return at;
}

void FakeDevice::within_reach_of_others() {
  const Lock lock(mutex_);
  for_others_ = true;
  for (auto& [at, allocation] : alive_) allocation.for_others = true;
}

void FakeDevice::exchange(std::byte* block) {
  const Lock lock(mutex_);
  alive_.at(reinterpret_cast<std::uintptr_t>(block)).number = ++allocations_;
  std::memset(see(block), scrambled, alive_.at(reinterpret_cast<std::uintptr_t>(block)).bytes);
}

Result<std::byte*> FakeDevice::allocate(int device, std::size_t bytes) {
  ++allocations_asked_;
  if (refuses_to_allocate_) return Status(ErrorCode::out_of_memory, "fake allocation: FAKE_ERROR_OUT_OF_MEMORY");
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

// The driver waits for whatever the device has to do; a test must not.
void FakeDevice::note_free() {
  const auto held = [](const std::unique_ptr<Line>& line) {
    return std::any_of(line->work.begin(), line->work.end(), [](const Work& work) { return work.blocks; });
  };
  if (std::any_of(lines_.begin(), lines_.end(), held)) ++frees_behind_held_streams_;
}

void FakeDevice::free(int, std::byte* block) {
  if (keeps_what_is_freed_) return;
  const Lock lock(mutex_);
  note_free();
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
  if (found->second.kind != MemoryKind::device || !found->second.for_others ||
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
  } else {
    std::uint64_t& opened = opened_[share.facts.base];
    if (keeps_what_is_freed_ && opened != 0 && opened != number)
      return Status(ErrorCode::unavailable, "what was there before is not closed yet");
    opened = number;
  }
  return std::shared_ptr<std::byte>(at, [](std::byte*) {});
}

std::byte* FakeDevice::allocate_pinned(std::size_t bytes) {
  const Lock lock(mutex_);
  ++pinnings_;
  if (refuses_to_pin_) return nullptr;
  auto* const block = static_cast<std::byte*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
  std::memset(block, scrambled, bytes);
  pinned_[block] = bytes;
  pinned_bytes_ += bytes;
  return block;
}

void FakeDevice::free_pinned(std::byte* block) {
  if (keeps_what_is_freed_) return;
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

}  // namespace fabring::fixture

#include "device/cuda/opened_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "device/cuda/sharing.hpp"

namespace fabring::cuda {
namespace {

constexpr std::uint64_t most_bytes = std::uint64_t{1} << 48;

Status wrong(const char* what) {
  return Status(ErrorCode::invalid_argument,
                fmt::format("what a process shares of its GPU's memory is broken: {}", what));
}

// It comes from a peer.
Status check(const DeviceShare& share) {
  const DeviceShare::Facts& facts = share.facts;
  if (facts.bytes == 0 || facts.bytes > most_bytes || facts.offset >= facts.bytes ||
      facts.base > UINT64_MAX - most_bytes)
    return wrong("its place");
  if (facts.pieces > DeviceShare::most_pieces ||
      (!share.descriptors.empty() && facts.pieces != share.descriptors.size()))
    return wrong("its pieces");
  std::uint64_t all = 0;
  for (std::uint64_t i = 0; i < facts.pieces; ++i) {
    if (facts.piece_bytes[i] == 0 || facts.piece_bytes[i] > most_bytes) return wrong("the length of a piece");
    if (facts.piece_numbers[i] == 0) return wrong("the number of a piece");
    all += facts.piece_bytes[i];
  }
  return facts.pieces == 0 || all == facts.bytes ? Status() : wrong("the length of its pieces");
}

Status not_closed_yet(const DeviceShare::Facts& facts) {
  return Status(ErrorCode::unavailable,
                fmt::format("what process {} had at this address before is not closed yet", facts.process.pid));
}

Status failure(const Driver& driver, const char* call, Answer answer, const DeviceShare::Facts& facts) {
  if (is_fatal(answer)) return driver.error(call, answer);
  if (answer == already_mapped)
    return Status(ErrorCode::unavailable,
                  fmt::format("{}: {}", not_closed_yet(facts).message(), driver.words(call, answer)));
  const bool elsewhere = facts.process.pid_namespace != ProcessName::self().pid_namespace;
  return Status(ErrorCode::unsupported,
                fmt::format("GPU memory of process {} cannot be opened here{}: {}", facts.process.pid,
                            elsewhere ? " (it is in another container; run both with one PID namespace)" : "",
                            driver.words(call, answer)));
}

}  // namespace

// What the driver mapped, until it is not needed any more.
class OpenedMemory::Mapping {
 public:
  Mapping(std::shared_ptr<EventPool> pool, Context context, int device, const DeviceShare::Facts& facts)
      : of(device, facts), pool_(std::move(pool)), context_(context) {}
  ~Mapping() {
    const auto entry = Entry::into(driver(), context_);
    if (handle_) {  // it is closed in the context that is current; without ours it stays
      if (entry) driver().cuIpcCloseMemHandle(at_);
    } else if (at_ != 0) {
      Address piece = at_;
      for (const std::uint64_t bytes : mapped_) {
        driver().cuMemUnmap(piece, bytes);
        piece += bytes;
      }
      driver().cuMemAddressFree(at_, reserved_);
    }
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* at() const { return reinterpret_cast<std::byte*>(at_); }

  const std::pair<int, DeviceShare::Facts> of;
  bool closes_here = false;  // its last user says so, who may wait

  Status open_handle(const DeviceShare::Facts& facts) {
    IpcHandle handle{};
    std::memcpy(handle.bytes, facts.handle.data(), sizeof handle.bytes);
    const Answer answer = driver().cuIpcOpenMemHandle_v2(&at_, handle, ipc_peer_access);
    if (answer != success) return failure(driver(), "cuIpcOpenMemHandle", answer, facts);
    handle_ = true;
    Address base = 0;
    std::size_t bytes = 0;  // what it says of itself, and what it is
    if (driver().cuMemGetAddressRange_v2(&base, &bytes, at_) == success && bytes < facts.bytes)
      return wrong("it is longer than the allocation");
    return {};
  }

  Status open_pieces(int device, const DeviceShare& share) {
    const DeviceShare::Facts& facts = share.facts;
    Answer answer = driver().cuMemAddressReserve(&at_, facts.bytes, 0, 0, 0);
    if (answer != success) {
      at_ = 0;
      return failure(driver(), "cuMemAddressReserve", answer, facts);
    }
    reserved_ = facts.bytes;
    Address next = at_;
    for (std::uint64_t i = 0; i < facts.pieces; ++i) {
      Physical piece = 0;
      void* const descriptor = reinterpret_cast<void*>(static_cast<std::intptr_t>(share.descriptors[i].fd()));
      answer = driver().cuMemImportFromShareableHandle(&piece, descriptor, handle_is_descriptor);
      if (answer != success) return failure(driver(), "cuMemImportFromShareableHandle", answer, facts);
      answer = driver().cuMemMap(next, facts.piece_bytes[i], 0, piece, 0);
      driver().cuMemRelease(piece);  // the mapping holds it
      if (answer != success) return failure(driver(), "cuMemMap", answer, facts);
      mapped_.push_back(facts.piece_bytes[i]);
      next += facts.piece_bytes[i];
    }
    const Access access{{location_device, device}, access_read_write};
    answer = driver().cuMemSetAccess(at_, facts.bytes, &access, 1);
    return answer == success ? Status() : failure(driver(), "cuMemSetAccess", answer, facts);
  }

 private:
  const Driver& driver() const { return pool_->driver(); }

  const std::shared_ptr<EventPool> pool_;
  const Context context_;
  Address at_ = 0;
  bool handle_ = false;
  std::uint64_t reserved_ = 0;
  std::vector<std::uint64_t> mapped_;
};

OpenedMemory::OpenedMemory(std::shared_ptr<EventPool> pool, ClosingThread& closing)
    : pool_(std::move(pool)), closing_(closing) {}

OpenedMemory::~OpenedMemory() = default;

void OpenedMemory::begin(const void* runtime) {
  if (!closing_.begin(runtime)) return;
  std::lock_guard lock(mutex_);
  kept_.forget_if([](const auto& whose) { return whose.second.has_ended(); });  // while nobody was there to see it
}

// The last one closes what is kept in this thread, but for what others still use.
void OpenedMemory::end(const void* runtime) {
  if (!closing_.end(runtime)) return;
  std::vector<Shared> unused;
  {
    std::lock_guard lock(mutex_);
    unused = kept_.take_all();
    warned_ = false;
  }
  for (Shared& one : unused)
    if (one.use_count() == 1) one->closes_here = true;
}

void OpenedMemory::forget(const ProcessName& process) {
  if (closing_.in_child()) return;
  std::lock_guard lock(mutex_);
  kept_.forget_if([&](const auto& whose) { return whose.second == process; });
}

// By the last user of a mapping, whoever that is.
void OpenedMemory::close(std::unique_ptr<Mapping> mapping) {
  if (closing_.in_child()) return (void)mapping.release();
  if (mapping->at() == nullptr || (mapping->closes_here && !closing_.keeps())) return;
  std::shared_ptr<Mapping> one(std::move(mapping));
  const auto noted = [&] {
    std::lock_guard lock(unclosed_mutex_);
    return unclosed_.insert(unclosed_.end(), one->of);
  }();
  closing_.close([this, noted, one = std::move(one)]() mutable {
    one.reset();
    std::lock_guard lock(unclosed_mutex_);
    unclosed_.erase(noted);
  });
}

// The driver would say CUDA_ERROR_ALREADY_MAPPED, or keep who asks waiting until that is closed, which may be for ever.
bool OpenedMemory::is_in_the_way(int device, const DeviceShare::Facts& facts) {
  if (facts.pieces > 0 || facts.allocation == 0) return false;
  std::lock_guard lock(unclosed_mutex_);
  return std::any_of(unclosed_.begin(), unclosed_.end(), [&](const auto& one) {
    const auto& [of, there] = one;
    return of == device && there.pieces == 0 && there.allocation != 0 && contradict(there, facts);
  });
}

OpenedMemory::Shared OpenedMemory::find(const std::pair<int, ProcessName>& whose, const DeviceShare::Facts& facts) {
  std::lock_guard lock(mutex_);
  const Shared* const kept = kept_.find(whose, facts);
  return kept != nullptr ? *kept : nullptr;
}

Result<std::shared_ptr<std::byte>> OpenedMemory::open(int device, Context context, const DeviceShare& share,
                                                      const std::function<void(const std::string&)>& warn) {
  FABRING_TRY(check(share));
  const DeviceShare::Facts& facts = share.facts;
  const std::pair whose{device, facts.process};
  const auto part_of = [&](const Shared& all) { return std::shared_ptr<std::byte>(all, all->at() + facts.offset); };
  if (const Shared kept = find(whose, facts)) return part_of(kept);
  std::lock_guard opening_lock(opening_mutex_);
  if (const Shared kept = find(whose, facts)) return part_of(kept);  // by another thread meanwhile
  {
    std::lock_guard lock(mutex_);
    (void)kept_.replace(whose, facts);
  }
  if (is_in_the_way(device, facts)) {
    closing_.close_what_is_in_the_way();
    return not_closed_yet(facts);
  }
  if (facts.pieces > share.descriptors.size())
    return Status(ErrorCode::unavailable, "these pieces of a GPU's memory are not mapped here");
  const Shared mapping(new Mapping(pool_, context, device, facts),
                       [this](Mapping* unused) { close(std::unique_ptr<Mapping>(unused)); });
  {
    const auto entry = Entry::into(pool_->driver(), context);
    if (!entry) return entry.error();
    const Status opened = facts.pieces == 0 ? mapping->open_handle(facts) : mapping->open_pieces(device, share);
    if (opened.code() == ErrorCode::unavailable) closing_.close_what_is_in_the_way();
    FABRING_TRY(opened);
  }
  std::lock_guard lock(mutex_);
  const bool again = (facts.allocation != 0 || facts.pieces > 0) && kept_.add(whose, facts, mapping);
  if (again && !std::exchange(warned_, true) && warn)
    warn(fmt::format(
        "process {} works with more than {} allocations of GPU memory that it shares with this one, so some "
        "are opened anew each time, which takes long; let it use fewer and larger ones, or set "
        "FABRING_GPU_PATH=staged",
        facts.process.pid, most_shares_kept));
  return part_of(mapping);
}

}  // namespace fabring::cuda

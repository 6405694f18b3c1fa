#include "device/cuda/sharing.hpp"

#include <fmt/format.h>

#include <cstring>

#include "device/cuda/attributes.hpp"

namespace fabring::cuda {
namespace {

Status refusal(const std::string& why) {
  return Status(ErrorCode::unsupported, "this memory cannot be shared with another process: " + why);
}

Status failure(const Driver& driver, const char* call, Answer answer) {
  return is_refusal(answer) ? refusal(driver.words(call, answer)) : driver.error(call, answer);
}

struct Attributes {
  unsigned long long number = 0;
  unsigned managed = 0, has_handle = 0;
  unsigned long long handle_types = 0;
  void* pool = nullptr;
};

Attributes attributes_of(const Driver& driver, const std::byte* at) {
  Attributes found;
  const auto ask = [&](int attribute, auto& value) { value = attribute_of(driver, at, attribute, value); };
  ask(attribute_buffer_id, found.number);
  ask(attribute_is_managed, found.managed);
  ask(attribute_has_handle, found.has_handle);
  ask(attribute_handle_types, found.handle_types);
  ask(attribute_pool, found.pool);
  return found;
}

// The pieces that hold [at, at + bytes), from the first on.
Status share_pieces(const Driver& driver, DeviceShare& share, const std::byte* at, std::size_t bytes) {
  const Address end = address_of(at) + bytes;
  for (Address next = address_of(at); next < end || share.facts.pieces == 0;) {
    Address base = 0;
    std::size_t length = 0;
    Answer answer = driver.cuMemGetAddressRange_v2(&base, &length, next);
    if (answer != success) return failure(driver, "cuMemGetAddressRange", answer);
    if (share.facts.pieces == DeviceShare::most_pieces)
      return refusal(fmt::format("it consists of more than {} pieces", DeviceShare::most_pieces));
    Physical piece = 0;
    answer = driver.cuMemRetainAllocationHandle(&piece, reinterpret_cast<void*>(base));
    if (answer != success) return failure(driver, "cuMemRetainAllocationHandle", answer);
    int fd = -1;
    answer = driver.cuMemExportToShareableHandle(&fd, piece, handle_is_descriptor, 0);
    driver.cuMemRelease(piece);
    if (answer != success) return failure(driver, "cuMemExportToShareableHandle", answer);
    share.descriptors.emplace_back(fd);
    if (share.facts.pieces == 0) {
      share.facts.base = base;
      share.facts.offset = address_of(at) - base;
    }
    share.facts.piece_bytes[share.facts.pieces++] = length;
    share.facts.bytes += length;
    next = base + length;
  }
  share.facts.allocation = 0;  // pieces come and go at the same address
  return {};
}

}  // namespace

std::optional<DeviceShare> KnownShares::find(const Driver& driver, const std::byte* at, std::size_t bytes) const {
  unsigned long long number = 0;
  int which[] = {attribute_buffer_id};
  void* values[] = {&number};
  int mode = capture_relaxed;
  driver.cuThreadExchangeStreamCaptureMode(&mode);
  const Answer answer = driver.cuPointerGetAttributes(1, which, values, address_of(at));
  driver.cuThreadExchangeStreamCaptureMode(&mode);
  if (answer != success || number == 0) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const auto found = by_number_.find(number);
  if (found == by_number_.end()) return std::nullopt;
  DeviceShare share{found->second, {}};
  share.facts.offset = address_of(at) - share.facts.base;
  if (share.facts.offset > share.facts.bytes || bytes > share.facts.bytes - share.facts.offset) return std::nullopt;
  return share;
}

void KnownShares::add(const DeviceShare& share) {
  if (share.facts.allocation == 0 || !share.descriptors.empty()) return;
  const std::lock_guard lock(mutex_);
  if (by_number_.size() == most_known) by_number_.erase(by_number_.begin());  // the oldest allocation
  by_number_[share.facts.allocation] = share.facts;
}

bool is_refusal(Answer answer) {
  return answer == invalid_value || answer == out_of_memory || answer == map_failed || answer == already_mapped ||
         answer == peer_access_unsupported || answer == invalid_handle || answer == not_permitted ||
         answer == not_supported || answer == invalid_context;
}

Result<DeviceShare> share_memory(const Driver& driver, Device device, const std::byte* at, std::size_t bytes) {
  const Attributes attributes = attributes_of(driver, at);
  if (attributes.managed != 0) return refusal("it is managed memory");
  DeviceShare share;
  share.facts.process = ProcessName::self();
  share.facts.allocation = attributes.number;
  Uuid uuid{};
  if (const Answer answer = driver.cuDeviceGetUuid_v2(&uuid, device); answer != success)
    return driver.error("cuDeviceGetUuid", answer);
  std::memcpy(share.facts.gpu.data(), uuid.bytes, sizeof uuid.bytes);
  if (attributes.has_handle == 0) {
    if (attributes.pool != nullptr) return refusal("it is of a stream-ordered pool (cudaMallocAsync)");
    if ((attributes.handle_types & handle_is_descriptor) == 0)
      return refusal("it was mapped without a handle for others (PyTorch: TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC=1)");
    FABRING_TRY(share_pieces(driver, share, at, bytes));
    return share;
  }
  Address base = 0;
  std::size_t length = 0;
  if (const Answer answer = driver.cuMemGetAddressRange_v2(&base, &length, address_of(at)); answer != success)
    return failure(driver, "cuMemGetAddressRange", answer);
  IpcHandle handle{};
  if (const Answer answer = driver.cuIpcGetMemHandle(&handle, base); answer != success)
    return failure(driver, "cuIpcGetMemHandle", answer);
  std::memcpy(share.facts.handle.data(), handle.bytes, sizeof handle.bytes);
  share.facts.base = base;
  share.facts.bytes = length;
  share.facts.offset = address_of(at) - base;
  if (bytes > length - share.facts.offset)
    return Status(ErrorCode::invalid_argument, "more is to be shared than the allocation has");
  return share;
}

}  // namespace fabring::cuda

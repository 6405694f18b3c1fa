#include "device/cuda/sharing.hpp"

#include <fmt/format.h>

#include <cstring>

#include "device/cuda/attributes.hpp"
#include "device/kept_shares.hpp"
#include "runtime/base/file_limit.hpp"

namespace fabring::cuda {
namespace {

Status refusal(const std::string& why) {
  return Status(ErrorCode::unsupported, "this memory cannot be shared with another process: " + why);
}

Status failure(const Driver& driver, const char* call, Answer answer) {
  return is_fatal(answer) ? driver.error(call, answer) : refusal(driver.words(call, answer));
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

unsigned long long number_of_piece(const Driver& driver, Address at) {
  return attribute_of(driver, reinterpret_cast<const std::byte*>(at), attribute_memory_block, 0ull);
}

// The pieces that hold [at, at + bytes), from the first on.
Status note_pieces(const Driver& driver, DeviceShare::Facts& facts, const std::byte* at, std::size_t bytes) {
  const Address end = address_of(at) + bytes;
  for (Address next = address_of(at); next < end || facts.pieces == 0;) {
    Address base = 0;
    std::size_t length = 0;
    if (const Answer answer = driver.cuMemGetAddressRange_v2(&base, &length, next); answer != success)
      return failure(driver, "cuMemGetAddressRange", answer);
    if (facts.pieces == DeviceShare::most_pieces)
      return refusal(fmt::format("it consists of more than {} pieces", DeviceShare::most_pieces));
    const unsigned long long number = number_of_piece(driver, base);
    if (number == 0) return refusal("it is mapped piece by piece, which this driver does not tell apart (CUDA 12)");
    if (facts.pieces == 0) {
      facts.base = base;
      facts.offset = address_of(at) - base;
    }
    facts.piece_numbers[facts.pieces] = number;
    facts.piece_bytes[facts.pieces++] = length;
    facts.bytes += length;
    next = base + length;
  }
  facts.allocation = 0;  // pieces come and go at the same address
  return {};
}

}  // namespace

std::optional<DeviceShare::Facts> KnownShares::find(const Driver& driver, const std::byte* at,
                                                    std::size_t bytes) const {
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
  DeviceShare::Facts facts = found->second;
  facts.offset = address_of(at) - facts.base;
  if (facts.offset > facts.bytes || bytes > facts.bytes - facts.offset) return std::nullopt;
  return facts;
}

void KnownShares::add(const DeviceShare::Facts& facts) {
  if (facts.allocation == 0 || facts.pieces > 0) return;
  const std::lock_guard lock(mutex_);
  if (!by_number_.insert_or_assign(facts.allocation, facts).second) return;
  in_order_.push_back(facts.allocation);
  if (in_order_.size() <= most_shares_kept) return;
  by_number_.erase(in_order_.front());
  in_order_.pop_front();
}

Result<DeviceShare::Facts> share_memory(const Driver& driver, Device device, const std::byte* at, std::size_t bytes) {
  const Attributes attributes = attributes_of(driver, at);
  if (attributes.managed != 0) return refusal("it is managed memory");
  DeviceShare::Facts facts;
  facts.process = ProcessName::self();
  facts.allocation = attributes.number;
  Uuid uuid{};
  if (const Answer answer = driver.cuDeviceGetUuid_v2(&uuid, device); answer != success)
    return driver.error("cuDeviceGetUuid", answer);
  std::memcpy(facts.gpu.data(), uuid.bytes, sizeof uuid.bytes);
  if (attributes.has_handle == 0) {
    if (attributes.pool != nullptr) return refusal("it is of a stream-ordered pool (cudaMallocAsync)");
    if ((attributes.handle_types & handle_is_descriptor) == 0)
      return refusal("it was mapped without a handle for others (PyTorch: TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC=1)");
    FABRING_TRY(note_pieces(driver, facts, at, bytes));
    return facts;
  }
  Address base = 0;
  std::size_t length = 0;
  if (const Answer answer = driver.cuMemGetAddressRange_v2(&base, &length, address_of(at)); answer != success)
    return failure(driver, "cuMemGetAddressRange", answer);
  IpcHandle handle{};
  if (const Answer answer = driver.cuIpcGetMemHandle(&handle, base); answer != success)
    return failure(driver, "cuIpcGetMemHandle", answer);
  std::memcpy(facts.handle.data(), handle.bytes, sizeof handle.bytes);
  facts.base = base;
  facts.bytes = length;
  facts.offset = address_of(at) - base;
  if (bytes > length - facts.offset)
    return Status(ErrorCode::invalid_argument, "more is to be shared than the allocation has");
  return facts;
}

Result<std::vector<Descriptor>> export_pieces(const Driver& driver, const DeviceShare::Facts& facts) {
  std::vector<Descriptor> descriptors;
  Address at = facts.base;
  for (std::uint64_t i = 0; i < facts.pieces; at += facts.piece_bytes[i++]) {
    if (number_of_piece(driver, at) != facts.piece_numbers[i])
      return refusal("a piece of it was unmapped, or exchanged for another, while an operation had it");
    Physical piece = 0;
    Answer answer = driver.cuMemRetainAllocationHandle(&piece, reinterpret_cast<void*>(at));
    if (answer != success) return failure(driver, "cuMemRetainAllocationHandle", answer);
    int fd = -1;
    answer = driver.cuMemExportToShareableHandle(&fd, piece, handle_is_descriptor, 0);
    // Which error it is for want of a descriptor the driver does not say.
    if (answer != success) {
      raise_file_limit();
      answer = driver.cuMemExportToShareableHandle(&fd, piece, handle_is_descriptor, 0);
    }
    driver.cuMemRelease(piece);
    if (answer != success) return failure(driver, "cuMemExportToShareableHandle", answer);
    descriptors.emplace_back(fd);
  }
  return descriptors;
}

}  // namespace fabring::cuda

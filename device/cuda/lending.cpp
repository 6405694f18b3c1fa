#include "device/cuda/lending.hpp"

#include <fmt/format.h>

#include "device/cuda/gpudirect.hpp"

namespace fabring::cuda {

Result<DeviceShare::Facts> Lending::share(const std::byte* at, std::size_t bytes) {
  if (const Driver* driver = runtime_.driver())
    if (auto known = shares_.find(*driver, at, bytes)) return *known;
  const auto facts = runtime_.look_up(at);
  if (!facts) return facts.error();
  if (facts->kind == MemoryKind::host) return Status(ErrorCode::invalid_argument, "memory of the host is no GPU's");
  const auto entry = runtime_.enter(facts->device);
  if (!entry) return entry.error();
  Device device = 0;
  entry->driver().cuDeviceGet(&device, facts->device);
  auto shared = share_memory(entry->driver(), device, at, bytes);
  if (shared) shares_.add(*shared);
  return shared;
}

Result<std::vector<Descriptor>> Lending::export_pieces(const DeviceShare::Facts& facts) {
  const auto there = runtime_.look_up(reinterpret_cast<const std::byte*>(facts.base));
  if (!there) return there.error();
  const auto entry = runtime_.enter(there->device);
  if (!entry) return entry.error();
  return cuda::export_pieces(entry->driver(), facts);
}

Result<CardFacts> Lending::look_up_for_cards(const std::byte* at) {
  const auto facts = runtime_.look_up(at);
  if (!facts) return facts.error();
  if (facts->kind == MemoryKind::host) return Status(ErrorCode::device_error, "memory of the host is no GPU's");
  const auto entry = runtime_.enter(facts->device);
  if (!entry) return entry.error();
  return facts_for_cards(entry->driver(), facts->device, at);
}

Result<Descriptor> Lending::export_pages(const std::byte* at, std::size_t bytes) {
  const auto facts = runtime_.look_up(at);
  if (!facts) return facts.error();
  const auto entry = runtime_.enter(facts->device);
  if (!entry) return entry.error();
  return export_dmabuf(entry->driver(), at, bytes);
}

// The driver opens nothing of one's own, and need not: only another GPU of this process must be let in.
Result<std::shared_ptr<std::byte>> Lending::open_own(int device, const DeviceShare::Facts& share) {
  auto* const at = reinterpret_cast<std::byte*>(share.base + share.offset);
  const auto facts = runtime_.look_up(at);
  if (!facts) return facts.error();
  if (facts->kind != MemoryKind::device)
    return Status(ErrorCode::invalid_argument, "what this process shares of its GPU's memory is the host's");
  // Pieces of a reservation, which is what the driver means by their range, are side by side in it.
  const std::byte* const base = at - share.offset;
  const bool inside = share.offset < share.bytes && base >= facts->base &&
                      share.bytes <= facts->bytes - static_cast<std::size_t>(base - facts->base);
  if (!inside || (share.pieces == 0 && (base != facts->base || share.bytes != facts->bytes)))
    return Status(ErrorCode::invalid_argument, "what this process shares of its GPU's memory is no allocation of it");
  if (facts->device != device) FABRING_TRY(let_in(device, facts->device, share.pieces > 0));
  return std::shared_ptr<std::byte>(at, [](std::byte*) {});
}

// Kernels of one GPU crash at memory of another that this process allocated, until its context has been let in;
// copies do not. Memory that was mapped piece by piece says for itself who may use it.
Status Lending::let_in(int device, int owner, bool in_pieces) {
  const auto refused = [&](const std::string& why) {
    return Status(ErrorCode::unsupported,
                  fmt::format("GPU {} does not reach memory of GPU {} of the same process: {}", device, owner, why));
  };
  if (in_pieces) return refused("it was mapped piece by piece, for its own GPU");
  Context other = nullptr;
  {
    const auto there = runtime_.enter(owner);
    if (!there) return there.error();
    other = there->context();
  }
  const auto entry = runtime_.enter(device);
  if (!entry) return entry.error();
  const Driver& driver = entry->driver();
  std::lock_guard lock(mutex_);
  if (let_in_.contains({device, owner})) return {};
  Device from = 0, to = 0;
  int possible = 0;
  driver.cuDeviceGet(&from, device);
  driver.cuDeviceGet(&to, owner);
  Answer answer = driver.cuDeviceCanAccessPeer(&possible, from, to);
  if (answer == success && possible == 0) return refused("there is no peer access between them");
  if (answer == success) answer = driver.cuCtxEnablePeerAccess(other, 0);
  if (answer != success && answer != peer_access_enabled) {
    if (is_fatal(answer)) return driver.error("cuCtxEnablePeerAccess", answer);
    return refused(driver.words("cuCtxEnablePeerAccess", answer));
  }
  let_in_.insert({device, owner});
  return {};
}

}  // namespace fabring::cuda

#include "device/cuda/gpudirect.hpp"

#include <cstdint>

#include "device/cuda/attributes.hpp"

namespace fabring::cuda {
namespace {

Status out_of_reach(const std::string& why) {
  return Status(ErrorCode::unsupported, "no network card may reach this memory: " + why);
}

}  // namespace

Result<CardFacts> facts_for_cards(const Driver& driver, int device, const std::byte* at) {
  if (attribute_of(driver, at, attribute_is_managed, 0u) != 0) return out_of_reach("it is managed memory");
  if (attribute_of(driver, at, attribute_pool, static_cast<void*>(nullptr)) != nullptr)
    return out_of_reach("it is of a stream-ordered pool (cudaMallocAsync)");
  if (attribute_of(driver, at, attribute_for_cards, 1u) == 0)
    return out_of_reach("it was mapped without gpuDirectRDMACapable, or this GPU has no GPUDirect RDMA");
  CardFacts facts;
  facts.device = device;
  // Memory that is mapped piece by piece has no handle; what the driver calls its range is what was reserved.
  if (attribute_of(driver, at, attribute_has_handle, 0u) == 0) return facts;
  Address base = 0;
  const Answer answer = driver.cuMemGetAddressRange_v2(&base, &facts.bytes, address_of(at));
  if (answer != success) return driver.error("cuMemGetAddressRange", answer);
  facts.base = reinterpret_cast<const std::byte*>(base);
  facts.number = attribute_of(driver, at, attribute_buffer_id, 0ull);
  return facts;
}

Result<Descriptor> export_dmabuf(const Driver& driver, const std::byte* at, std::size_t bytes) {
  if (driver.cuMemGetHandleForAddressRange == nullptr)
    return Status(ErrorCode::unsupported, "this NVIDIA driver exports no memory as a dmabuf (CUDA 11.7 does)");
  int fd = -1;
  Answer answer = success;
  // Through the card's side of the GPU where there are two (CUDA 12.8); older ones refuse the question.
  for (const unsigned long long flags : {dmabuf_over_pcie, 0ull}) {
    answer = driver.cuMemGetHandleForAddressRange(&fd, address_of(at), bytes, range_is_dmabuf, flags);
    if (answer == success) return Descriptor(fd);
  }
  return Status(ErrorCode::unsupported, driver.words("cuMemGetHandleForAddressRange", answer));
}

// Before compute capability 9.0 what a card says may overtake what it wrote, whatever the driver's attribute says.
bool sees_writes_of_cards(const Driver& driver, Device device) {
  int ordering = 0, major = 0;
  driver.cuDeviceGetAttribute(&ordering, device_attribute_writes_ordering, device);
  driver.cuDeviceGetAttribute(&major, device_attribute_major, device);
  return ordering >= ordering_owner && major >= 9;
}

}  // namespace fabring::cuda

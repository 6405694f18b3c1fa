#include "transports/fabric/device_registrations.hpp"

#include <algorithm>
#include <utility>

namespace fabring::fabric {

DeviceRange range_for(const DeviceAllocation& allocation, std::span<const std::byte> memory) {
  const DeviceRange whole{allocation.device, allocation.base, allocation.bytes};
  const bool known = allocation.base != nullptr && allocation.number != 0;
  if (known && allocation.bytes <= DeviceRegistrations::largest_whole) return whole;
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
  const std::uintptr_t first = begin / DeviceRegistrations::granule * DeviceRegistrations::granule;
  const std::size_t wanted = begin + memory.size() - first;
  DeviceRange part{
      allocation.device, memory.data() - (begin - first),
      (wanted + DeviceRegistrations::granule - 1) / DeviceRegistrations::granule * DeviceRegistrations::granule};
  if (!known) return {allocation.device, memory.data(), memory.size()};
  const std::byte* const end = std::min(part.base + part.bytes, whole.base + whole.bytes);
  part.base = std::max(part.base, whole.base);
  part.bytes = static_cast<std::size_t>(end - part.base);
  return part;
}

DeviceRegistrations::DeviceRegistrations(std::shared_ptr<DeviceMemory> memory, Register how, std::size_t limit)
    : memory_(std::move(memory)), register_(std::move(how)), limit_(limit) {}

Status DeviceRegistrations::prove(const DeviceAllocation& allocation, std::span<const std::byte> memory) const {
  const auto handle = register_({allocation.device, memory.data(), std::min(memory.size(), granule)},
                                !memory_->sees_remote_writes(allocation.device));
  return handle ? Status() : handle.error();
}

Result<std::shared_ptr<const void>> DeviceRegistrations::admit(const DeviceAllocation& allocation,
                                                               std::span<const std::byte> memory) {
  if (Shared kept = take_kept(allocation, memory)) return lease(std::move(kept));
  make_room(allocation);
  auto made = std::make_shared<DeviceRegistration>();
  made->range = range_for(allocation, memory);
  if (!made->range.holds(memory))
    return Status(ErrorCode::invalid_argument, "it goes beyond the end of its allocation");
  made->number = allocation.number;
  made->to_flush = !memory_->sees_remote_writes(allocation.device);
  auto handle = register_(made->range, made->to_flush);
  if (!handle) return handle.error();
  made->handle = std::move(*handle);
  if (made->number != 0) kept_.push_back(made);
  return lease(std::move(made));
}

DeviceRegistrations::Shared DeviceRegistrations::take_kept(const DeviceAllocation& allocation,
                                                           std::span<const std::byte> memory) {
  if (allocation.number == 0) return nullptr;
  const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const Shared& one) {
    return one->number == allocation.number && one->range.holds(memory);
  });
  if (found == kept_.end()) return nullptr;
  std::rotate(found, found + 1, kept_.end());
  return kept_.back();
}

// All of them are looked at in turn, over some misses: of memory that comes and goes each operation is one.
void DeviceRegistrations::make_room(const DeviceAllocation& wanted) {
  std::erase_if(kept_, [&](const Shared& one) {
    return one->number != wanted.number && wanted.base < one->range.base + one->range.bytes &&
           one->range.base < wanted.base + wanted.bytes;
  });
  for (std::size_t looks = std::min(kept_.size(), looks_at_a_miss); looks > 0; --looks) {
    if (next_look_ >= kept_.size()) next_look_ = 0;
    const auto one = kept_.begin() + static_cast<std::ptrdiff_t>(next_look_);
    const auto now = memory_->look_up((*one)->range.base);
    if (now && now->number == (*one)->number) {
      ++next_look_;
    } else {
      kept_.erase(one);
    }
  }
  if (kept_.size() >= limit_) kept_.erase(kept_.begin(), kept_.end() - static_cast<std::ptrdiff_t>(limit_ - 1));
}

std::shared_ptr<const void> DeviceRegistrations::lease(Shared registration) {
  std::erase_if(leases_, [](const auto& one) { return one.expired(); });
  auto lease = std::make_shared<const Lease>(Lease{std::move(registration)});
  leases_.push_back(lease);
  return lease;
}

std::shared_ptr<const DeviceRegistration> DeviceRegistrations::find(std::span<const std::byte> bytes) const {
  for (const auto& one : leases_)
    if (const auto lease = one.lock(); lease && lease->registration->range.holds(bytes)) return lease->registration;
  return nullptr;
}

void DeviceRegistrations::clear() {
  for (const auto& one : leases_)
    if (const auto lease = one.lock()) lease->registration->handle.reset();
  leases_.clear();
  kept_.clear();
}

}  // namespace fabring::fabric

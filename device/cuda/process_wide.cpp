#include "device/cuda/process_wide.hpp"

#include <unistd.h>

#include <atomic>
#include <utility>

namespace fabring::cuda {

ProcessWide& ProcessWide::here() {
  static std::atomic<ProcessWide*> made{nullptr};  // no lock: at a fork a thread that is not in the child may hold it
  ProcessWide* known = made.load(std::memory_order_acquire);
  const int process = ::getpid();
  if (known != nullptr && known->process_ == process) return *known;
  auto* const fresh = new ProcessWide(process);  // never deleted
  if (made.compare_exchange_strong(known, fresh, std::memory_order_acq_rel)) return *fresh;
  delete fresh;  // another thread was first
  return *known;
}

std::shared_ptr<EventPool> ProcessWide::pool(std::unique_ptr<Driver> driver) {
  const std::lock_guard lock(mutex_);
  if (!pool_) pool_ = std::make_shared<EventPool>(std::move(driver));
  return pool_;
}

std::shared_ptr<KernelSet> ProcessWide::kernels_of(int device, const std::shared_ptr<EventPool>& pool) {
  const std::lock_guard lock(mutex_);
  auto& kernels = kernels_[device];
  if (!kernels) {
    Device handle = 0;
    pool->driver().cuDeviceGet(&handle, device);
    kernels = std::make_shared<KernelSet>(pool, handle);
  }
  return kernels;
}

void ProcessWide::leave(int device, std::byte* block, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  left_[device].emplace(bytes, block);
}

ProcessWide::Left ProcessWide::take(int device, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  auto& left = left_[device];
  const auto found = left.lower_bound(bytes);
  if (found == left.end() || found->first > 2 * bytes) return {};
  const Left taken{found->second, found->first};
  left.erase(found);
  return taken;
}

bool ProcessWide::take(int device, const std::byte* block) {
  const std::lock_guard lock(mutex_);
  return std::erase_if(left_[device], [block](const auto& one) { return one.second == block; }) > 0;
}

OpenedMemory& ProcessWide::opened() {
  const std::lock_guard lock(mutex_);
  if (!opened_) opened_ = std::make_unique<OpenedMemory>(pool_, closing_);
  return *opened_;
}

}  // namespace fabring::cuda

#include "tensor_memory.hpp"

#include <c10/util/Exception.h>

#include <algorithm>
#include <string>

namespace fabring_torch {

at::Tensor TensorMemory::tensor(const Group& group, std::int64_t size, const at::TensorOptions& options) {
  constexpr std::size_t smallest = 16384;  // from there on being mapped is a gain; it is whole pages, too
  const std::size_t bytes = static_cast<std::size_t>(std::max<std::int64_t>(size, 0)) * options.dtype().itemsize();
  const bool fits = bytes >= smallest && options.device().is_cpu() && !options.pinned_memory();
  void* const memory = fits ? take(group, bytes) : nullptr;
  if (memory == nullptr) return at::empty({size}, options);
  // Of a child of fork() it is the parent's, as the lock may be.
  const auto give = [kept = shared_from_this(), bytes](void* given) {
    if (kept->origin_.is_this_process()) kept->give_back(given, bytes);
  };
  return at::from_blob(memory, {size}, give, options);
}

void* TensorMemory::take(const Group& group, std::size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    std::vector<void*>& of_size = kept_[bytes];
    if (!of_size.empty()) {
      void* const memory = of_size.back();
      of_size.pop_back();
      return memory;
    }
  }
  std::string why;
  void* memory = group.allocate(bytes, why);
  if (memory == nullptr) {  // what is kept of other sizes may be what is missing
    free_kept();
    memory = group.allocate(bytes, why);
  }
  if (memory == nullptr) {
    TORCH_WARN_ONCE("fabring: ", why, "; process group '", group.request().name,
                    "' gives tensors in ordinary memory instead");
  }
  return memory;
}

void TensorMemory::give_back(void* memory, std::size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (!closed_) return kept_[bytes].push_back(memory);
  }
  Group::release(memory);
}

void TensorMemory::free_kept() {
  std::map<std::size_t, std::vector<void*>> kept;
  {
    const std::lock_guard lock(mutex_);
    kept.swap(kept_);
  }
  for (const auto& [bytes, of_size] : kept)
    for (void* const memory : of_size) Group::release(memory);
}

void TensorMemory::close() {
  if (!origin_.is_this_process()) return;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  free_kept();
}

}  // namespace fabring_torch

#include "tensor_memory.hpp"

#include <c10/util/Exception.h>

#include <algorithm>

#include "failure.hpp"

namespace fabring_torch {

at::Tensor TensorMemory::tensor(fabring_engine* engine, std::int64_t size, const at::TensorOptions& options) {
  constexpr std::size_t smallest = 16384;  // from there on being mapped is a gain; it is whole pages, too
  const std::size_t bytes = static_cast<std::size_t>(std::max<std::int64_t>(size, 0)) * options.dtype().itemsize();
  const bool fits = bytes >= smallest && options.device().is_cpu() && !options.pinned_memory();
  void* const memory = fits ? take(engine, bytes) : nullptr;
  if (memory == nullptr) return at::empty({size}, options);
  // Of a child of fork() it is the parent's, as the lock may be.
  const auto give = [kept = shared_from_this(), bytes](void* given) {
    if (kept->origin_.is_here()) kept->give_back(given, bytes);
  };
  return at::from_blob(memory, {size}, give, options);
}

void* TensorMemory::take(fabring_engine* engine, std::size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    std::vector<void*>& of_size = kept_[bytes];
    if (!of_size.empty()) {
      void* const memory = of_size.back();
      of_size.pop_back();
      return memory;
    }
  }
  fabring_error error = FABRING_ERROR_INIT;
  void* memory = nullptr;
  // What is kept of other sizes may be what is missing.
  if (fabring_mem_alloc(engine, bytes, &memory, &error) != FABRING_STATUS_OK) {
    free_kept();
    memory = nullptr;
    if (fabring_mem_alloc(engine, bytes, &memory, &error) != FABRING_STATUS_OK) {
      TORCH_WARN_ONCE(text_of(error), "; tensors that PyTorch asks a process group for are in ordinary memory instead");
      return nullptr;
    }
  }
  return memory;
}

void TensorMemory::give_back(void* memory, std::size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (!closed_) return kept_[bytes].push_back(memory);
  }
  fabring_mem_free(memory);
}

void TensorMemory::free_kept() {
  std::map<std::size_t, std::vector<void*>> kept;
  {
    const std::lock_guard lock(mutex_);
    kept.swap(kept_);
  }
  for (const auto& [bytes, of_size] : kept)
    for (void* const memory : of_size) fabring_mem_free(memory);
}

void TensorMemory::close() {
  if (!origin_.is_here()) return;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  free_kept();
}

}  // namespace fabring_torch

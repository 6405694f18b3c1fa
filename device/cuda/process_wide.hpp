#pragma once
// What all engines of a process share of its GPUs, one after the other too: the driver, events, words for kernels and
// the kernels themselves, memory of other processes that is open, the thread
// that closes and frees, and memory that is not freed yet. None of it but what is open or was left is given back: to
// unload kernels could wait for what a program has a GPU do, and at the end of a process the driver may be gone before
// us. So there is one of each, however many engines come and go. Threads: any.

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

#include "device/cuda/closing_thread.hpp"
#include "device/cuda/event_pool.hpp"
#include "device/cuda/kernel_set.hpp"
#include "device/cuda/opened_memory.hpp"

namespace fabring::cuda {

class ProcessWide {
 public:
  /// This process's: a child of fork() has its own, as what the driver gave its parent is not its.
  static ProcessWide& here();

  /// Over the driver that the first caller brings.
  std::shared_ptr<EventPool> pool(std::unique_ptr<Driver> driver);
  /// Of a GPU whose primary context is there, over this pool. Loaded when somebody asks for it.
  std::shared_ptr<KernelSet> kernels_of(int device, const std::shared_ptr<EventPool>& pool);
  /// Over the pool, which is there by now.
  OpenedMemory& opened();
  ClosingThread& closing() { return closing_; }

  static constexpr int of_the_host = -1;  // pinned
  /// For whoever takes it: memory of a GPU, or of the host.
  void leave(int device, std::byte* block, std::size_t bytes);
  struct Left {
    std::byte* block = nullptr;
    std::size_t bytes = 0;
  };
  /// A block that was left, at least so long and at most twice that, and how long it is; null: there is none.
  Left take(int device, std::size_t bytes);
  /// This very block; false if somebody has it by now.
  bool take(int device, const std::byte* block);

 private:
  explicit ProcessWide(int process) : process_(process) {}

  const int process_;
  std::mutex mutex_;
  std::shared_ptr<EventPool> pool_;                    // under mutex_
  std::map<int, std::shared_ptr<KernelSet>> kernels_;  // likewise
  std::map<int, std::multimap<std::size_t, std::byte*>> left_;
  ClosingThread closing_;
  std::unique_ptr<OpenedMemory> opened_;
};

}  // namespace fabring::cuda

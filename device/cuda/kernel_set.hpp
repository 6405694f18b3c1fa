#pragma once
// KernelSet: the kernels of one context, by name. Loading takes milliseconds and may wait for the device, so it is done
// once and before anything is under way; launching waits for nothing.

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/cuda/event_pool.hpp"
#include "device/cuda/kernel_choice.hpp"

namespace fabring::cuda {

class KernelSet {
 public:
  KernelSet(std::shared_ptr<EventPool> pool, Device device) : pool_(std::move(pool)), device_(device) {}

  /// In an Entry of the context. Errors: unavailable if this build has no kernels, or none for this GPU, for good;
  /// out_of_memory and device_error, which may be over next time.
  Status load();
  /// Any thread, anywhere.
  bool loaded() const { return ready_.load(std::memory_order_acquire); }
  /// In an Entry; once they are loaded.
  Status launch(const kernels::CopyTask& task, Stream stream);
  /// Likewise; loads if nobody has. Errors: those of load(); device_error.
  Status launch(const KernelCall& call, Stream stream);

 private:
  Status load_all();
  Status load_from(std::vector<Module>& modules);

  const std::shared_ptr<EventPool> pool_;
  const Device device_;
  std::mutex mutex_;
  bool tried_ = false;  // under mutex_, as the rest; loaded, it stays as it is
  Status loaded_;
  unsigned processors_ = 1;
  std::map<std::string, Function, std::less<>> functions_;
  Function copy_and_tell_ = nullptr;
  std::atomic<bool> ready_{false};
};

}  // namespace fabring::cuda

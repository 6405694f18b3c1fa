#include "tools/fabring/perf/device_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "device/cuda/cuda_runtime.hpp"

namespace fabring::tools {
namespace {

Result<std::shared_ptr<DeviceRuntime>> begin() {
  auto runtime = make_cuda_runtime();
  if (!runtime)
    return Status(ErrorCode::unavailable, "this fabring was built without GPU memory (FABRING_WITH_CUDA=OFF)");
  FABRING_TRY(runtime->begin());
  const auto devices = runtime->devices();
  if (!devices) return devices.error();
  if (devices->empty())
    return Status(ErrorCode::unavailable, "no GPU: the driver shows none (is CUDA_VISIBLE_DEVICES empty?)");
  return runtime;
}

}  // namespace

Status DeviceMemory::check() {
  const auto runtime = begin();
  return runtime ? Status() : runtime.error();
}

Result<std::shared_ptr<DeviceMemory>> DeviceMemory::open(const Config& config) {
  auto runtime = begin();
  if (!runtime) return runtime.error();
  std::shared_ptr<DeviceMemory> memory(new DeviceMemory);
  memory->runtime_ = std::move(*runtime);
  const auto devices = memory->runtime_->devices();
  if (!devices) return devices.error();
  const int local = std::max(config.local_rank >= 0 ? config.local_rank : config.rank, 0);
  const DeviceFacts& chosen = (*devices)[static_cast<std::size_t>(local) % devices->size()];
  memory->device_ = chosen.device;
  memory->name_ = chosen.name;
  memory->gpus_ = static_cast<int>(devices->size());
  memory->side_by_side_ = chosen.side_by_side;
  auto queue = memory->runtime_->open_queue(memory->device_);
  if (!queue) return queue.error();
  memory->queue_ = std::move(*queue);
  return memory;
}

DeviceMemory::~DeviceMemory() {
  queue_.reset();
  for (std::byte* block : blocks_) runtime_->free(device_, block);
}

Result<std::byte*> DeviceMemory::allocate(std::size_t bytes) {
  auto block = runtime_->allocate(device_, std::max<std::size_t>(bytes, 1));
  if (block) blocks_.push_back(*block);
  return block;
}

std::string DeviceMemory::turns(int ranks_of_host) const {
  if (ranks_of_host <= gpus_ || side_by_side_.value_or(true)) return {};
  return fmt::format(
      "{} ranks share {} and take turns on {}, which sets the times below; with MPS "
      "(nvidia-cuda-mps-control -d, before this) they run side by side",
      ranks_of_host, gpus_ == 1 ? "a GPU" : fmt::format("{} GPUs", gpus_), gpus_ == 1 ? "it" : "them");
}

Status DeviceMemory::copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes == 0) return {};
  FABRING_TRY(queue_->post_copy(to, from, bytes));
  FABRING_TRY(queue_->post_mark());
  ++marks_;
  for (;;) {
    const auto reached = queue_->reached();
    if (!reached) return reached.error();
    if (*reached >= marks_) return {};
    std::this_thread::yield();
  }
}

}  // namespace fabring::tools

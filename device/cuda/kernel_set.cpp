#include "device/cuda/kernel_set.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "device/cuda/kernels/all.hpp"
#include "device/cuda/kernels/images.hpp"

namespace fabring::cuda {
namespace {

// Enough blocks for every processor to hide the latency of memory; each goes on to the next piece.
constexpr unsigned blocks_per_processor = 8;

#define FABRING_KERNEL_NAME(name, ...) #name,
constexpr const char* kernel_names[] = {FABRING_KERNELS(FABRING_KERNEL_NAME)};
#undef FABRING_KERNEL_NAME

}  // namespace

// All of them or none: what was loaded takes memory of the GPU.
Status KernelSet::load_all() {
  std::vector<Module> modules;
  Status loaded = load_from(modules);
  if (loaded.ok()) {
    ready_.store(true, std::memory_order_release);
    return loaded;
  }
  for (const Module module : modules) (void)pool_->driver().cuModuleUnload(module);
  return loaded;
}

Status KernelSet::load_from(std::vector<Module>& modules) {
  const Driver& driver = pool_->driver();
  const auto images = kernels::images();
  if (images.empty())
    return Status(ErrorCode::unavailable,
                  "this build of Fabring has no GPU kernels: nvcc was not found when it was configured, or "
                  "FABRING_WITH_CUDA_KERNELS is OFF; install the CUDA toolkit (12.8 or newer) and configure again");
  int processors = 0, major = 0, minor = 0;
  driver.cuDeviceGetAttribute(&processors, device_attribute_processors, device_);
  driver.cuDeviceGetAttribute(&major, device_attribute_major, device_);
  driver.cuDeviceGetAttribute(&minor, device_attribute_minor, device_);
  processors_ = static_cast<unsigned>(std::max(processors, 1));
  // Whatever else the driver has against the images it will have again: there are none for this GPU. It has many words
  // for an image that is newer than it is, CUDA_ERROR_INVALID_IMAGE for most of them.
  const auto failure = [&](const char* call, Answer answer) -> Status {
    if (is_fatal(answer)) return driver.error(call, answer);
    if (answer == out_of_memory)
      return driver.error(call, answer).with_prefix("the GPU has no room for the kernels, for now: ");
    return Status(
        ErrorCode::unavailable,
        fmt::format("the GPU kernels of this build do not run on a GPU of compute capability {}.{} under this "
                    "driver: {}; they need 8.0 or newer, and a driver of no older major version of CUDA than "
                    "the toolkit they were built with",
                    major, minor, driver.words(call, answer)));
  };
  for (const void* image : images) {
    Module module = nullptr;
    const Answer answer = driver.cuModuleLoadData(&module, image);
    if (answer != success) return failure("cuModuleLoadData", answer);
    modules.push_back(module);
  }
  // Each is asked for now: then none is left to be loaded at its first launch, which would wait for the whole device.
  const auto find = [&](const char* name, Function& function) -> Status {
    Answer answer = not_found;
    for (auto module = modules.begin(); module != modules.end() && answer == not_found; ++module)
      answer = driver.cuModuleGetFunction(&function, *module, fmt::format("fabring_{}", name).c_str());
    return answer == success ? Status() : failure("cuModuleGetFunction", answer).with_prefix(fmt::format("{}: ", name));
  };
  for (const char* name : kernel_names) FABRING_TRY(find(name, functions_[name]));
  return find("copy_and_tell", copy_and_tell_);
}

Status KernelSet::load() {
  std::lock_guard lock(mutex_);
  if (!tried_) {
    loaded_ = load_all();
    tried_ = loaded_.ok() || loaded_.code() == ErrorCode::unavailable;  // anything else may be over next time
  }
  return loaded_;
}

Status KernelSet::launch(const KernelCall& call, Stream stream) {
  FABRING_TRY(load());
  const auto found = functions_.find(call.kernel);
  if (found == functions_.end())
    return Status(ErrorCode::internal, fmt::format("there is no GPU kernel {}", call.kernel));
  const std::uint64_t threads = kernels::threads_of(call.task, call.element_bytes);
  const auto blocks = static_cast<unsigned>(
      std::min<std::uint64_t>((threads + kernels::threads_per_block - 1) / kernels::threads_per_block,
                              std::uint64_t{processors_} * blocks_per_processor));
  kernels::FoldTask task = call.task;
  void* arguments[] = {&task};
  const Answer answer = pool_->driver().cuLaunchKernel(found->second, std::max(blocks, 1u), 1, 1,
                                                       kernels::threads_per_block, 1, 1, 0, stream, arguments, nullptr);
  return answer == success ? Status() : pool_->driver().error("cuLaunchKernel", answer).with_prefix(call.kernel + ": ");
}

Status KernelSet::launch(const kernels::CopyTask& task, Stream stream) {
  kernels::CopyTask argument = task;
  void* arguments[] = {&argument};
  const Answer answer = pool_->driver().cuLaunchKernel(copy_and_tell_, kernels::blocks_of(task), 1, 1,
                                                       kernels::threads_per_block, 1, 1, 0, stream, arguments, nullptr);
  return answer == success ? Status() : pool_->driver().error("cuLaunchKernel", answer).with_prefix("copy_and_tell: ");
}

}  // namespace fabring::cuda

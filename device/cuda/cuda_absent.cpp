// Built instead of the CUDA runtime with FABRING_WITH_CUDA=OFF.

#include "device/cuda/cuda_runtime.hpp"

namespace fabring {

std::shared_ptr<DeviceRuntime> make_cuda_runtime(std::function<void(const std::string&)>) { return nullptr; }

bool host_may_have_gpus() { return false; }

}  // namespace fabring

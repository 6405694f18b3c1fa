#pragma once
// The DeviceRuntime of CUDA, over the driver's own interface. libcuda.so.1 is loaded at run time, so one binary serves
// machines with and without a GPU.

#include <functional>
#include <memory>
#include <string>

#include "device/device_runtime.hpp"

namespace fabring {

/// Never fails: without a driver nothing is ever in_use(), and begin() says why. Null in a build without CUDA
/// (FABRING_WITH_CUDA=OFF). `warn`: told, in any thread, what a person should know and no call says.
std::shared_ptr<DeviceRuntime> make_cuda_runtime(std::function<void(const std::string&)> warn = {});

/// Could a process of this host come to use a GPU? By the driver's devices, which under WSL are another, and where it
/// makes them only when they are first used, by its library. False in a build without CUDA.
bool host_may_have_gpus();

}  // namespace fabring

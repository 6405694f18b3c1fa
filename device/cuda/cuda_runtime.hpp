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

}  // namespace fabring

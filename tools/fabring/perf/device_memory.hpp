#pragma once
// DeviceMemory: buffers in memory of a GPU for what is measured, and the way there and back for what is checked. One
// GPU for each rank in turn, by its number on the host.

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "device/device_runtime.hpp"
#include "fabring/config.hpp"

namespace fabring::tools {

class DeviceMemory {
 public:
  /// Errors: unavailable without a GPU, saying why.
  static Result<std::shared_ptr<DeviceMemory>> open(const Config& config);
  /// The same question, asked before any rank is started.
  static Status check();
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  /// Lives as long as this. Errors: out_of_memory, device_error.
  Result<std::byte*> allocate(std::size_t bytes);
  /// Between host and device, in either direction; done when it returns.
  Status copy(std::byte* to, const std::byte* from, std::size_t bytes);
  int device() const { return device_; }
  const std::string& name() const { return name_; }
  /// Do so many ranks of a host share GPUs and take turns on them? What that means, or nothing.
  std::string turns(int ranks_of_host) const;

 private:
  DeviceMemory() = default;
  std::shared_ptr<DeviceRuntime> runtime_;
  std::unique_ptr<DeviceQueue> queue_;
  std::vector<std::byte*> blocks_;
  std::uint64_t marks_ = 0;
  int device_ = 0;
  std::string name_;
  int gpus_ = 0;
  std::optional<bool> side_by_side_;
};

}  // namespace fabring::tools

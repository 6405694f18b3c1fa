#pragma once
// Lending: memory of GPUs of this process that others reach: another process, a network card, another GPU of this
// process. The part of CudaRuntime that says what they have to know of it, and lets them in. Threads: any.

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "device/cuda/sharing.hpp"
#include "device/device_runtime.hpp"

namespace fabring::cuda {

class Lending {
 public:
  /// What it asks of its runtime.
  struct Runtime {
    std::function<const Driver*()> driver;  ///< null: none is in use
    std::function<Result<MemoryFacts>(const void*)> look_up;
    std::function<Result<Entry>(int device)> enter;
  };
  explicit Lending(Runtime runtime) : runtime_(std::move(runtime)) {}

  // As in DeviceRuntime.
  Result<DeviceShare::Facts> share(const std::byte* at, std::size_t bytes);
  Result<std::vector<Descriptor>> export_pieces(const DeviceShare::Facts& facts);
  Result<CardFacts> look_up_for_cards(const std::byte* at);
  Result<Descriptor> export_pages(const std::byte* at, std::size_t bytes);

  /// Of what this process itself has shared, as open_share().
  Result<std::shared_ptr<std::byte>> open_own(int device, const DeviceShare::Facts& share);

 private:
  Status let_in(int device, int owner, bool in_pieces);

  const Runtime runtime_;
  KnownShares shares_;
  std::mutex mutex_;
  std::set<std::pair<int, int>> let_in_;  // under mutex_; a device, and whose memory it reaches
};

}  // namespace fabring::cuda

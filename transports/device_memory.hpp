#pragma once
// DeviceMemory: what a transport needs to know of this process's GPUs so that a network card can read and write their
// memory. A transport knows no GPU: runtime/memory/card_access.hpp has this over the DeviceRuntime, tests over a fake.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "fabring/status.hpp"
#include "runtime/base/descriptor.hpp"

namespace fabring {

/// Memory of a GPU, as it is now.
struct DeviceAllocation {
  int device = -1;                  ///< as the GPU's runtime numbers them in this process
  const std::byte* base = nullptr;  ///< null: not known
  std::size_t bytes = 0;            ///< from `base` on
  /// No other allocation of this process ever has it. 0: not known; what lies there may change at any time.
  std::uint64_t number = 0;
};

/// One thread at a time.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  /// May this process use GPUs, now or later? Begins with none.
  virtual bool may_be_used() = 0;
  /// Errors: device_error where there is no living allocation; unsupported where no card may reach it, saying why.
  virtual Result<DeviceAllocation> look_up(const std::byte* at) = 0;
  /// A dmabuf of whole pages of one GPU's memory. Errors: unsupported, saying why there is none.
  virtual Result<Descriptor> export_pages(const std::byte* at, std::size_t bytes) = 0;
  /// Does this GPU see all that a card has written when the card says that it has? Otherwise something must be read
  /// through the same card first.
  virtual bool sees_remote_writes(int device) = 0;
  /// To try a card with: memory of the GPU that the calling thread, or else the process, uses. Null: none is used yet,
  /// or has memory left.
  virtual std::shared_ptr<std::byte> block_to_try(std::size_t bytes) = 0;
};

}  // namespace fabring

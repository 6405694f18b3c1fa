#pragma once
// DeviceRegistrations: memory of GPUs that was registered with a card, kept for the next operation on it. What is kept
// is looked up at each use: memory that was freed, and perhaps given out again at the same address, has another number
// by then. Registering pins what was freed, so there is a limit to what is kept, and each miss drops what lay where
// the new allocation is, and looks at a few others whether they are stale.
//
// An operation holds what it was admitted by for as long as it runs; nothing of that is dropped under it. Only admitted
// memory is found: an address that a GPU had once may be the host's today. One thread at a time.

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "fabring/status.hpp"
#include "transports/device_memory.hpp"
#include "transports/fabric/handles.hpp"

namespace fabring::fabric {

/// What is to be registered, or is.
struct DeviceRange {
  int device = -1;
  const std::byte* base = nullptr;
  std::size_t bytes = 0;

  bool holds(std::span<const std::byte> part) const {
    return part.data() >= base && part.data() + part.size() <= base + bytes;
  }
};

struct DeviceRegistration {
  DeviceRange range;
  std::uint64_t number = 0;  ///< of the allocation; 0: not to be used again
  bool to_flush = false;     ///< what was received must be read through the card before it is there
  RegistrationHandle handle;
};

class DeviceRegistrations {
 public:
  static constexpr std::size_t usual_limit = 64;
  static constexpr std::size_t largest_whole = std::size_t{1} << 30;  // of a larger allocation only what is asked for
  static constexpr std::size_t granule = 64 * 1024;                   // pages of a GPU
  static constexpr std::size_t looks_at_a_miss = 8;                   // each asks the driver

  using Register = std::function<Result<RegistrationHandle>(const DeviceRange& range, bool to_flush)>;
  DeviceRegistrations(std::shared_ptr<DeviceMemory> memory, Register how, std::size_t limit = usual_limit);

  Result<DeviceAllocation> look_up(std::span<const std::byte> memory) const { return memory_->look_up(memory.data()); }
  /// Does the card reach memory of this GPU at all? Registers some of it for a moment. Errors: unavailable if not; what
  /// there is against this memory; out_of_memory if it may be asked again.
  Status prove(const DeviceAllocation& allocation, std::span<const std::byte> memory) const;
  /// See Endpoint::admit_device_memory. Errors: why it cannot be registered.
  Result<std::shared_ptr<const void>> admit(const DeviceAllocation& allocation, std::span<const std::byte> memory);
  /// What these bytes were admitted by; null: they were not.
  std::shared_ptr<const DeviceRegistration> find(std::span<const std::byte> bytes) const;
  /// Gives everything back, also under those who hold it: nothing is under way any more.
  void clear();

  std::size_t kept() const { return kept_.size(); }

 private:
  using Shared = std::shared_ptr<DeviceRegistration>;
  Shared take_kept(const DeviceAllocation& allocation, std::span<const std::byte> memory);
  void make_room(const DeviceAllocation& wanted);
  std::shared_ptr<const void> lease(Shared registration);

  const std::shared_ptr<DeviceMemory> memory_;
  const Register register_;
  const std::size_t limit_;
  std::vector<Shared> kept_;   // the one used last at the end
  std::size_t next_look_ = 0;  // at the one that is there, whether it is still alive
  struct Lease {
    Shared registration;
  };
  std::vector<std::weak_ptr<const Lease>> leases_;
};

/// The range that is registered for an operand: its whole allocation, where that is known and not huge.
DeviceRange range_for(const DeviceAllocation& allocation, std::span<const std::byte> memory);

}  // namespace fabring::fabric

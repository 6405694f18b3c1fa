#pragma once
// LockedMemory: memory of the host that a card is given for one operation. The limit on locked memory is the process's:
// what an operation on another card or of another engine gives back is there for this one.

#include <cstddef>

#include "transports/fabric/handles.hpp"

namespace fabring::fabric {

class LockedMemory {
 public:
  LockedMemory() = default;
  ~LockedMemory() { reset(); }
  LockedMemory(const LockedMemory&) = delete;
  LockedMemory& operator=(const LockedMemory&) = delete;

  /// `passing`: so many bytes of it are given back as soon as a message is through; 0: it stays.
  void hold(RegistrationHandle registration, std::size_t passing);
  void reset();
  fid_mr* get() const { return registration_.get(); }

  /// Of all of this process.
  static std::size_t passing_bytes();

 private:
  RegistrationHandle registration_;
  std::size_t passing_ = 0;
};

}  // namespace fabring::fabric

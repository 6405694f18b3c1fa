#include "transports/fabric/locked_memory.hpp"

#include <atomic>
#include <utility>

namespace fabring::fabric {
namespace {

std::atomic<std::size_t> passing_of_all{0};

}  // namespace

void LockedMemory::hold(RegistrationHandle registration, std::size_t passing) {
  reset();
  registration_ = std::move(registration);
  if (!registration_) return;  // the provider takes any memory
  passing_ = passing;
  passing_of_all += passing;
}

void LockedMemory::reset() {
  registration_.reset();  // first: who still sees it counted tries once more
  if (passing_ != 0) passing_of_all -= std::exchange(passing_, 0);
}

std::size_t LockedMemory::passing_bytes() { return passing_of_all; }

}  // namespace fabring::fabric

#pragma once
// How a C function answers: a Status becomes a code and the caller's fabring_error, and no exception leaves.

#include <exception>
#include <new>

#include "fabring/fabring.h"
#include "fabring/status.hpp"

namespace fabring::c_api {

/// Writes `status` into *error, if there is one, as far as its struct_size goes.
fabring_status_code report(fabring_error* error, const Status& status) noexcept;
/// The same for texts that need no memory.
fabring_status_code report(fabring_error* error, ErrorCode code, const char* message) noexcept;

/// False for an error structure that was not initialised: its size cannot be trusted.
bool is_usable(const fabring_error* error) noexcept;

/// Runs `body`, which returns a Status.
template <class Body>
fabring_status_code answer(fabring_error* error, Body&& body) noexcept {
  if (!is_usable(error)) return FABRING_STATUS_INVALID_ARGUMENT;
  try {
    return report(error, body());
  } catch (const std::bad_alloc&) {
    return report(error, ErrorCode::out_of_memory, "this machine has no memory left for what the call needs");
  } catch (const std::exception& thrown) {
    return report(error, ErrorCode::internal, thrown.what());
  } catch (...) {
    return report(error, ErrorCode::internal, "an exception of unknown type");
  }
}

/// "the argument 'world' is null"
Status null_argument(const char* name);

}  // namespace fabring::c_api

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
/// What is wrong with it then.
Status error_not_initialised();

inline constexpr const char* no_memory_text = "this machine has no memory left for what the call needs";

/// Runs `body`, which returns a Status, and reports to an error structure that is usable.
template <class Body>
fabring_status_code guarded(fabring_error* error, Body&& body) noexcept {
  try {
    return report(error, body());
  } catch (const std::bad_alloc&) {
    return report(error, ErrorCode::out_of_memory, no_memory_text);
  } catch (const std::exception& thrown) {
    return report(error, ErrorCode::internal, thrown.what());
  } catch (...) {
    return report(error, ErrorCode::internal, "an exception of unknown type");
  }
}

/// Runs `body`, but nothing with an error structure that was not initialised.
template <class Body>
fabring_status_code answer(fabring_error* error, Body&& body) noexcept {
  return is_usable(error) ? guarded(error, body) : FABRING_STATUS_INVALID_ARGUMENT;
}

/// As answer(), for what must not be left out because of the error structure: waits and ends. `body` runs with any;
/// with one that was not initialised the code is all of the answer. Calls that the others may wait in:
/// answer_or_refuse().
template <class Body>
fabring_status_code act_anyway(fabring_error* error, Body&& body) noexcept {
  if (is_usable(error)) return guarded(error, body);
  const fabring_status_code code = guarded(nullptr, body);
  return code == FABRING_STATUS_OK ? FABRING_STATUS_INVALID_ARGUMENT : code;
}

/// This machine has none left for what the call needs.
Status no_memory();
/// "the argument 'world' is null"
Status null_argument(const char* name);

}  // namespace fabring::c_api

#pragma once
// From fabring_error to a Python exception. Which class belongs to which code is said by fabring/errors.py.

#include "fabring/fabring.h"

namespace fabring::python {

/// Raises fabring.errors.make(...) of this error.
[[noreturn]] void raise(const fabring_error& error);
[[noreturn]] void raise_forked();
[[noreturn]] void raise_released();

/// Raises if the call failed; `error` is what the call filled in.
inline void check(fabring_status_code code, const fabring_error& error) {
  if (code != FABRING_STATUS_OK) raise(error);
}

}  // namespace fabring::python

#pragma once
// Texts that the C API writes into a buffer of the caller's.

#include <string>

#include "bindings/python/core/failure.hpp"

namespace fabring::python {

/// The whole text that `write(to, size, needed, error)` has to say. Asked again when it grew meanwhile.
template <class Write>
std::string text(Write&& write) {
  std::string made(256, '\0');
  while (true) {
    std::size_t needed = 0;
    fabring_error error = FABRING_ERROR_INIT;
    check(write(made.data(), made.size(), &needed, &error), error);
    const bool whole = needed < made.size();
    made.resize(whole ? needed : needed + 1);
    if (whole) return made;
  }
}

}  // namespace fabring::python

#pragma once
// whole_text(): what the C API writes into a buffer of the caller's, however long it is.

#include <cstddef>
#include <string>

#include "fabring/fabring.h"

namespace fabring::bindings {

/// The whole text that `write(to, size, needed, error)` has to say. Asked again when it was too long, or grew
/// meanwhile. `check(code, error)` throws unless `code` is success.
template <class Write, class Check>
std::string whole_text(Write&& write, Check&& check) {
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

}  // namespace fabring::bindings

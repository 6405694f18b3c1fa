#pragma once
// Texts that the C API writes into a buffer of the caller's.

#include <string>
#include <utility>

#include "bindings/python/core/failure.hpp"
#include "bindings/whole_text.hpp"

namespace fabring::python {

/// The whole text that `write(to, size, needed, error)` has to say.
template <class Write>
std::string text(Write&& write) {
  return bindings::whole_text(std::forward<Write>(write), check);
}

}  // namespace fabring::python

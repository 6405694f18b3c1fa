#pragma once
// One attribute of an address at a time: an older driver does not know all of them, and a question with one that it
// does not know has no answers.

#include "device/cuda/event_pool.hpp"

namespace fabring::cuda {

/// In an Entry, or where the capture mode is relaxed.
template <class Value>
Value attribute_of(const Driver& driver, const std::byte* at, int attribute, Value otherwise) {
  Value value = otherwise;
  int which[] = {attribute};
  void* values[] = {&value};
  return driver.cuPointerGetAttributes(1, which, values, address_of(at)) == success ? value : otherwise;
}

}  // namespace fabring::cuda

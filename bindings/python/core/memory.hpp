#pragma once
// What is behind an array of any library that speaks DLPack.

#include <nanobind/nanobind.h>

namespace fabring::python {

void bind_memory(nanobind::module_& module);

}  // namespace fabring::python

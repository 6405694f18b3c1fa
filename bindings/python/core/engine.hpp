#pragma once
// Engine of the module: meets the other ranks, hands out the world, leaves.

#include <nanobind/nanobind.h>

namespace fabring::python {

void bind_engine(nanobind::module_& module);

}  // namespace fabring::python

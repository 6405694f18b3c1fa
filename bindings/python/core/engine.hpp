#pragma once
// Engine of the module: hands out the world, leaves.

#include <nanobind/nanobind.h>

namespace fabring::python {

void bind_engine(nanobind::module_& module);

}  // namespace fabring::python

#pragma once
// Operation: a fabring_operation with the lengths of blocks and the list of tensors it points to. Addresses come from
// fabring/arrays.py, which has checked type, length and contiguity; the arrays are kept alive by whoever starts the
// operation.

#include <nanobind/nanobind.h>

#include <cstddef>
#include <vector>

#include "fabring/fabring.h"

namespace fabring::python {

struct Operation {
  fabring_operation value = FABRING_OPERATION_INIT;
  std::vector<std::size_t> counts, out_counts;
  std::vector<fabring_tensor> tensors;

  /// The C structure, pointing at our own vectors: valid while this is neither moved nor changed.
  fabring_operation pointed() const;
};

void bind_operation(nanobind::module_& module);

}  // namespace fabring::python

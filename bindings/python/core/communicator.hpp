#pragma once
// Work, Prepared and Communicator of the module: handles, and the Python objects (arrays) that must outlive an
// operation. Arrays of an operation that nobody holds any more are kept until it is over.

#include <nanobind/nanobind.h>

#include <memory>
#include <utility>

#include "bindings/python/core/handle.hpp"

namespace fabring::python {

struct Work {
  Work(WorkHandle of, nanobind::object arrays) : handle(std::move(of)), keep(std::move(arrays)) {}
  Work(Work&&) noexcept = default;
  /// However it comes about, an exception before anybody holds it among others: what goes on keeps its arrays.
  ~Work();
  WorkHandle handle;
  nanobind::object keep;  ///< let go when the operation is over
};

struct Prepared {
  PreparedHandle handle;
  nanobind::object keep;
};

void bind_communicator(nanobind::module_& module);

}  // namespace fabring::python

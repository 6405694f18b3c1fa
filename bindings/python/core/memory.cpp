#include "bindings/python/core/memory.hpp"

#include <nanobind/ndarray.h>

#include <cstdint>

namespace nb = nanobind;

namespace fabring::python {
namespace {

using Array = nb::ndarray<nb::ro>;

bool row_major(const Array& array) {
  std::int64_t expected = 1;
  for (std::size_t i = array.ndim(); i-- > 0;) {
    if (array.shape(i) != 1 && array.stride(i) != expected) return false;
    expected *= static_cast<std::int64_t>(array.shape(i));
  }
  return true;
}

/// (address, shape, DLPack's type code, bits, device type, in one row-major piece?)
nb::tuple describe(const Array& array) {
  nb::list shape;
  for (std::size_t i = 0; i < array.ndim(); ++i) shape.append(array.shape(i));
  const nb::dlpack::dtype type = array.dtype();
  return nb::make_tuple(reinterpret_cast<std::uintptr_t>(array.data()), nb::tuple(shape), static_cast<int>(type.code),
                        type.bits * type.lanes, array.device_type(), row_major(array) || array.size() == 0);
}

/// What exports its memory as read-only must not be written to.
bool is_writable(nb::handle array) {
  nb::ndarray<> writable;
  return nb::try_cast(array, writable);
}

}  // namespace

void bind_memory(nb::module_& module) {
  module.def("describe", describe, nb::arg("array"));
  module.def("is_writable", is_writable, nb::arg("array"));
}

}  // namespace fabring::python

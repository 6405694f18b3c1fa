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

/// What an exporter has given: by DLPack its memory is the consumer's until this goes.
struct Exported {
  Array array;
};

/// (address, shape, DLPack's type code, bits and lanes, device type and number, in one row-major piece?, what keeps the
/// memory)
nb::tuple describe(const Array& array) {
  nb::list shape;
  for (std::size_t i = 0; i < array.ndim(); ++i) shape.append(array.shape(i));
  const nb::dlpack::dtype type = array.dtype();
  return nb::make_tuple(reinterpret_cast<std::uintptr_t>(array.data()), nb::tuple(shape), static_cast<int>(type.code),
                        type.bits, type.lanes, array.device_type(), array.device_id(),
                        row_major(array) || array.size() == 0, Exported{array});
}

/// Takes nothing that is exported as read-only.
nb::tuple describe_writable(const nb::ndarray<>& array) { return describe(Array(array)); }

}  // namespace

void bind_memory(nb::module_& module) {
  nb::class_<Exported>(module, "Exported");
  module.def("describe", describe, nb::arg("array"));
  module.def("describe_writable", describe_writable, nb::arg("array"));
}

}  // namespace fabring::python

#include "bindings/python/core/failure.hpp"

#include <nanobind/nanobind.h>

#include <cstdio>

namespace nb = nanobind;

namespace fabring::python {

void raise(const fabring_error& error) {
  // Texts are cut at a byte, perhaps inside a character.
  const auto text = [](const char* from) {
    return nb::steal<nb::str>(
        PyUnicode_DecodeUTF8(from, static_cast<Py_ssize_t>(std::char_traits<char>::length(from)), "replace"));
  };
  nb::object made = nb::module_::import_("fabring.errors")
                        .attr("make")(fabring_status_name(error.code), text(error.message), error.rank,
                                      text(error.host), text(error.collective), error.sequence, error.bytes);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
  throw nb::python_error();
}

namespace {

[[noreturn]] void raise_text(const char* text) {
  fabring_error error = FABRING_ERROR_INIT;
  error.code = FABRING_STATUS_INVALID_ARGUMENT;
  std::snprintf(error.message, sizeof error.message, "%s", text);
  raise(error);
}

}  // namespace

void raise_forked() {
  raise_text(
      "this process is a fork of the one that made this object, and an engine does not survive a fork. Call "
      "fabring.init() in this process, as a rank of its own (FABRING_RANK), and use what that returns; or make no "
      "Fabring "
      "call in helpers like data loaders");
}

void raise_released() { raise_text("this object was closed; call fabring.init() again"); }

}  // namespace fabring::python

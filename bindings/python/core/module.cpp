// fabring._core: the C API as Python objects. Nothing here decides anything; the package fabring is for people.

#include <dlfcn.h>
#include <nanobind/nanobind.h>

#include "bindings/python/core/communicator.hpp"
#include "bindings/python/core/engine.hpp"
#include "bindings/python/core/meeting.hpp"
#include "bindings/python/core/memory.hpp"
#include "bindings/python/core/operation.hpp"
#include "fabring/fabring.h"
#include "fabring/version.hpp"

namespace {

/// Where the library lies that this module got: a copy that is in the process already, and LD_LIBRARY_PATH, go before
/// its own.
const char* library_file() {
  Dl_info found{};
  return ::dladdr(reinterpret_cast<const void*>(&fabring_version), &found) != 0 ? found.dli_fname : "";
}

}  // namespace

NB_MODULE(_core, module) {
  namespace python = fabring::python;
  nanobind::set_leak_warnings(false);  // a thread or a global may hold a communicator when Python ends
  module.attr("version") = fabring_version();
  module.attr("built_with") = FABRING_VERSION;
  module.attr("library_file") = library_file();
#ifdef FABRING_PYTHON_WITH_CUDA
  module.attr("takes_gpu_memory") = true;
#else
  module.attr("takes_gpu_memory") = false;
#endif
  python::bind_operation(module);
  python::bind_memory(module);
  python::bind_engine(module);
  python::bind_meeting(module);
  python::bind_communicator(module);
}

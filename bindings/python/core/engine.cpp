#include "bindings/python/core/engine.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <cstdint>
#include <memory>

#include "bindings/python/core/handle.hpp"
#include "bindings/python/core/text.hpp"

namespace nb = nanobind;

namespace fabring::python {
namespace {

std::unique_ptr<CommHandle> world(const EngineHandle& engine) {
  fabring_comm* made = nullptr;
  fabring_error error = FABRING_ERROR_INIT;
  check(fabring_engine_world(engine.use(), &made, &error), error);
  return std::make_unique<CommHandle>(made);
}

std::unique_ptr<MemoryHandle> allocate(const EngineHandle& engine, std::size_t bytes) {
  void* memory = nullptr;
  fabring_error error = FABRING_ERROR_INIT;
  fabring_engine* const of = engine.use();
  fabring_status_code code = FABRING_STATUS_OK;
  {
    const auto stays = engine.stay();
    nb::gil_scoped_release others_run;  // its pages are made
    code = fabring_mem_alloc(of, bytes, &memory, &error);
  }
  check(code, error);
  return std::make_unique<MemoryHandle>(memory);
}

nb::dict traffic(const EngineHandle& engine) {
  fabring_traffic counted = FABRING_TRAFFIC_INIT;
  fabring_error error = FABRING_ERROR_INIT;
  check(fabring_engine_traffic(engine.use(), &counted, &error), error);
  nb::dict made;
  made["payload_bytes_sent"] = counted.payload_bytes_sent;
  made["payload_bytes_received"] = counted.payload_bytes_received;
  made["wire_bytes_sent"] = counted.wire_bytes_sent;
  made["wire_bytes_received"] = counted.wire_bytes_received;
  made["messages_sent"] = counted.messages_sent;
  return made;
}

}  // namespace

void bind_engine(nb::module_& module) {
  nb::class_<MemoryHandle>(module, "Memory").def_prop_ro("address", [](const MemoryHandle& memory) {
    return reinterpret_cast<std::uintptr_t>(memory.use());
  });
  nb::class_<EngineHandle>(module, "Engine")
      .def("world", world)
      .def("allocate", allocate, nb::arg("bytes"))
      .def("close", &EngineHandle::release)
      .def("traffic", traffic)
      .def("report",
           [](const EngineHandle& engine) {
             return text([&](char* to, std::size_t size, std::size_t* needed, fabring_error* error) {
               return fabring_engine_report(engine.use(), to, size, needed, error);
             });
           })
      .def("setting", [](const EngineHandle& engine, const std::string& name) {
        return text([&](char* to, std::size_t size, std::size_t* needed, fabring_error* error) {
          return fabring_engine_setting(engine.use(), name.c_str(), to, size, needed, error);
        });
      });
}

}  // namespace fabring::python

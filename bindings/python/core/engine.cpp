#include "bindings/python/core/engine.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "bindings/python/core/handle.hpp"
#include "bindings/python/core/text.hpp"
#include "bindings/python/core/waiting.hpp"

namespace nb = nanobind;

namespace fabring::python {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

struct ConfigDeleter {
  void operator()(fabring_config* config) const { (void)fabring_config_free(config); }
};
using ConfigHandle = std::unique_ptr<fabring_config, ConfigDeleter>;

ConfigHandle make_config(bool from_environment, const Settings& settings) {
  if (from_environment) (void)make_config(false, settings);  // what is wrong with them comes before who this rank is
  fabring_config* made = nullptr;
  fabring_error error = FABRING_ERROR_INIT;
  check(from_environment ? fabring_config_create_from_environment(&made, &error) : fabring_config_create(&made, &error),
        error);
  ConfigHandle config(made);
  for (const auto& [name, value] : settings)
    check(fabring_config_set(made, name.c_str(), value.c_str(), &error), error);
  return config;
}

// The meeting can last minutes and nothing ends it, so it happens in a thread of its own: after a Ctrl-C that thread
// finds nobody interested and leaves the job at once.
struct Meeting {
  explicit Meeting(ConfigHandle of) : config(std::move(of)) {}
  ~Meeting() {
    if (engine != nullptr) (void)fabring_engine_destroy(engine);
  }
  ConfigHandle config;
  fabring_engine* engine = nullptr;
  fabring_status_code code = FABRING_STATUS_OK;
  fabring_error error = FABRING_ERROR_INIT;
};

std::unique_ptr<EngineHandle> create(bool from_environment, const Settings& settings) {
  const auto meeting = std::make_shared<Meeting>(make_config(from_environment, settings));
  run_aside(
      [meeting] { meeting->code = fabring_engine_create(meeting->config.get(), &meeting->engine, &meeting->error); });
  check(meeting->code, meeting->error);
  return std::make_unique<EngineHandle>(std::exchange(meeting->engine, nullptr));
}

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
  module.def("create", create, nb::arg("from_environment"), nb::arg("settings"));
}

}  // namespace fabring::python

#include "bindings/python/core/meeting.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "bindings/fork_origin.hpp"

namespace nb = nanobind;

namespace fabring::python {
namespace {

struct ConfigDeleter {
  void operator()(fabring_config* config) const { (void)fabring_config_free(config); }
};
using ConfigHandle = std::unique_ptr<fabring_config, ConfigDeleter>;

bool job_is_over(fabring_engine* engine) {
  fabring_comm* world = nullptr;
  if (fabring_engine_world(engine, &world, nullptr) != FABRING_STATUS_OK) return true;
  const fabring_status_code health = fabring_comm_health(world, nullptr);
  (void)fabring_comm_free(world);
  return health != FABRING_STATUS_OK;
}

ConfigHandle make_config(bool from_environment, const Meeting::Settings& settings) {
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

}  // namespace

// Owned by the thread too: without the Meeting it goes on to its end, as nothing ends it, and what it made leaves.
struct Meeting::Shared {
  explicit Shared(ConfigHandle of) : config(std::move(of)) {}
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  ~Shared() {
    if (engine != nullptr && origin.is_here()) (void)fabring_engine_destroy(engine);
  }
  ConfigHandle config;
  fabring_engine* engine = nullptr;
  fabring_status_code code = FABRING_STATUS_OK;
  fabring_error error = FABRING_ERROR_INIT;
  bindings::ForkOrigin origin;
};

Meeting::Meeting(bool from_environment, const Settings& settings)
    : shared_(std::make_shared<Shared>(make_config(from_environment, settings))) {}

Meeting::~Meeting() { forget(); }

void Meeting::forget() {
  std::shared_ptr<Shared> left = std::move(shared_);
  if (!left) return;
  nb::gil_scoped_release others_run;  // leaving a job waits for the others
  // Not by the thread, should it still hold it: whoever meets anew after this finds the job left.
  if (left->origin.is_here() && aside_ && aside_->over())
    (void)fabring_engine_destroy(std::exchange(left->engine, nullptr));
  left.reset();
}

std::unique_ptr<EngineHandle> Meeting::engine() {
  if (!shared_) raise_released();
  if (!shared_->origin.is_here()) raise_forked();
  if (!aside_)
    aside_.emplace([shared = shared_] {
      shared->code = fabring_engine_create(shared->config.get(), &shared->engine, &shared->error);
    });
  aside_->wait();
  check(shared_->code, shared_->error);
  return std::make_unique<EngineHandle>(std::exchange(shared_->engine, nullptr));
}

bool Meeting::spent() const {
  if (!shared_ || !shared_->origin.is_here()) return true;
  return aside_ && aside_->over() && (shared_->engine == nullptr || job_is_over(shared_->engine));
}

bool Meeting::under_way() const { return shared_ && shared_->origin.is_here() && aside_ && !aside_->over(); }

void bind_meeting(nb::module_& module) {
  nb::class_<Meeting>(module, "Meeting")
      .def(nb::init<bool, const Meeting::Settings&>(), nb::arg("from_environment"), nb::arg("settings"))
      .def("engine", &Meeting::engine)
      .def("forget", &Meeting::forget)
      .def_prop_ro("spent", &Meeting::spent)
      .def_prop_ro("under_way", &Meeting::under_way);
}

}  // namespace fabring::python

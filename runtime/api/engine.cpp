#include "fabring/communicator.hpp"
#include "runtime/api/engine_of.hpp"
#include "runtime/api/guarded_store.hpp"
#include "runtime/engine/engine_core.hpp"
#include "runtime/startup/startup.hpp"

namespace fabring {

Engine::Engine(std::shared_ptr<EngineCore> core) : core_(std::move(core)) {}

Result<std::unique_ptr<Engine>> Engine::from_environment() {
  auto config = Config::from_environment();
  if (!config) return config.error();
  return create(std::move(*config));
}

Result<std::unique_ptr<Engine>> Engine::create(Config config) {
  auto core = start_up(std::move(config));
  if (!core) return core.error();
  return std::unique_ptr<Engine>(new Engine(std::move(*core)));
}

Result<std::unique_ptr<Engine>> Engine::create(Config config, Store& store) {
  GuardedStore guarded(store);
  auto core = start_up(std::move(config), &guarded);
  if (!core) return core.error();
  return std::unique_ptr<Engine>(new Engine(std::move(*core)));
}

Status Engine::decline(Store& store, int rank, const Status& why) {
  GuardedStore guarded(store);
  return decline_start(guarded, rank, why);
}

Engine::~Engine() {
  if (is_parents(core_->world()))
    keep_for_ever(std::move(core_));
  else
    (void)core_->leave();
}

Communicator Engine::world() { return Communicator(core_->world()); }
Status Engine::leave() { return is_parents(core_->world()) ? Status() : core_->leave(); }
Traffic Engine::traffic() const { return is_parents(core_->world()) ? Traffic() : core_->traffic(); }
std::vector<std::string> Engine::report() const { return core_->report(); }
const Config& Engine::config() const { return core_->config(); }

}  // namespace fabring

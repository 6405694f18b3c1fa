#include "runtime/startup/startup.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/algorithms.hpp"
#include "device/cuda/cuda_runtime.hpp"
#include "runtime/base/digest.hpp"
#include "runtime/base/handshake.hpp"
#include "runtime/base/named_thread.hpp"
#include "runtime/bootstrap/bootstrap.hpp"
#include "runtime/bootstrap/store_bootstrap.hpp"
#include "runtime/control/control_plane.hpp"
#include "runtime/startup/assembly.hpp"
#include "runtime/startup/config_check.hpp"
#include "runtime/startup/gathering.hpp"
#include "runtime/startup/introduction.hpp"
#include "runtime/startup/machine_probe.hpp"
#include "runtime/startup/usable_transports.hpp"
#include "topology/host_identity.hpp"
#include "transports/fabric/fabric_transport.hpp"

namespace fabring {
namespace {

LogLevel level_of(const std::string& text) {
  if (text == "none") return LogLevel::none;
  if (text == "error") return LogLevel::error;
  if (text == "info") return LogLevel::info;
  if (text == "debug") return LogLevel::debug;
  return LogLevel::warning;
}

// Of a settled Config, and nobody else.
EngineParts begin_parts(const Config& config, std::shared_ptr<DeviceRuntime> device, const Log& log) {
  EngineParts parts;
  parts.config = config;
  parts.overrides = *parse_overrides(config.algorithm);  // check_grammar() has seen it
  parts.machine = *find_machine("loopback-tcp");
  parts.self = config.rank;
  parts.world_size = config.world_size;
  parts.clock = std::make_shared<SteadyClock>();
  parts.log = log;
  parts.host = host_name();
  parts.device = device ? std::move(device) : make_cuda_runtime([log](const std::string& text) { log.warning(text); });
  if (!parts.device || !parts.device->in_use()) return parts;
  parts.report.push_back(
      "GPU memory: read by ranks of this host where it is if they can, else staged through pinned memory");
  // The first operation would load them, and its call wait for what the program has the GPU do by then.
  if (const int used = parts.device->device_in_use(); used >= 0) (void)parts.device->load_kernels(used);
  return parts;
}

struct Meeting {
  std::unique_ptr<Bootstrap> bootstrap;
  std::unique_ptr<ControlPlane> control;
};

// What can be known to be wrong before others are asked. The job's secret; empty: it has none.
Result<std::string> settle(Config& config) {
  limit_timeouts(config);
  FABRING_TRY(check_settings(config));
  FABRING_TRY(check_grammar(config));
  if (config.world_size > 1) FABRING_TRY(check_interface_here(config));
  if (config.secret_file.empty()) return std::string();
  return read_secret(config.secret_file);
}

// The other ranks, and the tree that connects all.
Result<Meeting> meet(const Config& config, const std::string& secret, Store* store, const Log& log) {
  const std::vector<std::string> asked = UsableTransports::asked_for(config.transport);
  if (std::find(asked.begin(), asked.end(), "fabric") != asked.end()) prepare_for_fabric();  // no thread of ours runs
  auto bootstrap = store != nullptr ? meet_by_store(config, *store, log) : rendezvous(config, secret, log);
  if (!bootstrap) return bootstrap.error();
  auto control = ControlPlane::start(config, secret, **bootstrap, log);
  if (!control) {
    (*bootstrap)->give_up(control.error());
    return control.error();
  }
  (*bootstrap)->finish();  // the control plane tells the others from here on
  return Meeting{std::move(*bootstrap), std::move(*control)};
}

// Posts the first receives; no rank may send before all have. Connecting needs all of us to poll meanwhile.
Status connect_all(EngineCore& core, ControlPlane& plane, const Config& config) {
  const auto deadline = std::chrono::steady_clock::now() + config.rendezvous_timeout;
  Result<std::string> ready = std::string();
  while (!core.ready_to_receive()) {
    if (const Status health = Communicator(core.world()).health(); !health.ok()) {
      ready = health;
      break;
    }
    if (std::chrono::steady_clock::now() > deadline) {
      ready =
          Status(ErrorCode::timeout, "could not connect the data path to every rank before FABRING_RENDEZVOUS_TIMEOUT");
      break;
    }
    std::this_thread::yield();
  }
  Result<std::vector<std::string>> all = Status(ErrorCode::internal, "");
  std::atomic<bool> over{false};
  auto barrier = start_thread("fabring-ready", [&] {
    all = Gathering(plane)(ready);
    over.store(true, std::memory_order_release);
  });
  if (barrier) {
    while (!over.load(std::memory_order_acquire)) {
      (void)core.ready_to_receive();
      std::this_thread::yield();
    }
    barrier->join();
  } else {  // the others have to hear it too
    ready = barrier.error();
    all = Gathering(plane)(ready);
  }
  if (!all) {
    const Status health = Communicator(core.world()).health();
    return health.ok() ? all.error() : health;
  }
  return {};
}

// The ranks have met by small messages; those that are measured first between hosts are of 64 KiB and more.
Status not_probed(const Status& why, bool several_hosts) {
  const bool lost = several_hosts && why.code() == ErrorCode::timeout;
  return why
      .with_prefix(lost ? "the ranks have met, and small messages pass; large ones may not, where an MTU is smaller on "
                          "the way than at its ends (fabring doctor net): "
                        : "")
      .with_prefix("measuring what messages cost (FABRING_MACHINE): ");
}

// A job that cannot be asked is still a job.
void answer_status(EngineCore& core, std::uint64_t job_nonce, const Log& log) {
  if (!core.config().status) return;
  if (const Status opened = core.open_status_door(job_nonce); !opened.ok())
    log.info("`fabring status` will not find this rank: " + opened.message());
}

}  // namespace

Result<std::shared_ptr<EngineCore>> start_up(Config config, Store* store, std::shared_ptr<DeviceRuntime> device) {
  FABRING_TRY(check_rank(config));
  const auto secret = settle(config);
  if (!secret) {
    if (store != nullptr) (void)decline_meeting(*store, config.rank, secret.error());
    return secret.error();
  }
  const Log log(level_of(config.log), config.rank, config.log_sink);

  EngineParts parts = begin_parts(config, std::move(device), log);
  if (config.world_size == 1) {
    parts.node_of = {0};
    parts.report.push_back("one rank: nothing to connect");
    auto alone = EngineCore::make(std::move(parts));
    answer_status(*alone, random_nonce(), log);
    return alone;
  }
  auto met = meet(config, *secret, store, log);
  if (!met) return met.error();
  Gathering gather(*met->control);
  auto introduced = introduce(parts, *secret, *met->bootstrap, gather);
  if (!introduced) return introduced.error();
  const auto probe = assemble(*introduced, gather, parts);
  if (!probe) return probe.error();
  ControlPlane& plane = *met->control;
  parts.control = std::move(met->control);
  auto core = EngineCore::make(std::move(parts));

  FABRING_TRY(connect_all(*core, plane, config));
  if (*probe) {
    core->take_time_for_any(config.rendezvous_timeout, "FABRING_RENDEZVOUS_TIMEOUT");
    auto probed = probe_machine(*core, **probe);
    if (!probed) return not_probed(probed.error(), core->world()->shape().nodes > 1);
    core->take_time_for_any(config.timeout, "FABRING_TIMEOUT");
    core->add_to_report(std::move(probed->line));
    if (config.rank == 0 && !probed->warning.empty()) log.warning(probed->warning);
  }
  core->add_to_report("memory: " + memory_text(core->memory()));
  core->look_when_idle();
  answer_status(*core, introduced->options.job_nonce, log);
  // What was asked for is said whatever the level, and is no warning.
  const Log telling = config.explain && config.rank == 0 ? log.at(LogLevel::info) : log;
  for (const std::string& line : core->report()) telling.info(line);
  return core;
}

Status decline_start(Store& store, Rank rank, const Status& why) {
  if (why.ok() || rank < 0)
    return Status(ErrorCode::invalid_argument, "a rank that declines to meet the others has a number and an error");
  return decline_meeting(store, rank, why);
}

}  // namespace fabring

#include "runtime/startup/startup.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "collectives/algorithms.hpp"
#include "device/cuda/cuda_runtime.hpp"
#include "runtime/base/digest.hpp"
#include "runtime/base/handshake.hpp"
#include "runtime/base/named_thread.hpp"
#include "runtime/bootstrap/bootstrap.hpp"
#include "runtime/bootstrap/store_bootstrap.hpp"
#include "runtime/control/control_plane.hpp"
#include "runtime/memory/card_access.hpp"
#include "runtime/startup/agreement.hpp"
#include "runtime/startup/config_check.hpp"
#include "runtime/startup/data_path.hpp"
#include "runtime/startup/home_core.hpp"
#include "runtime/startup/locality.hpp"
#include "runtime/startup/machine_choice.hpp"
#include "runtime/startup/machine_file.hpp"
#include "runtime/startup/own_identity.hpp"
#include "runtime/startup/usable_transports.hpp"
#include "topology/cpus.hpp"
#include "topology/host_identity.hpp"
#include "topology/interfaces.hpp"
#include "transports/fabric/fabric_transport.hpp"

namespace fabring {
namespace {

LogLevel level_of(const std::string& text) {
  if (text == "error") return LogLevel::error;
  if (text == "info") return LogLevel::info;
  if (text == "debug") return LogLevel::debug;
  return LogLevel::warning;
}

// The interface chosen, and the cards beside it.
Result<RailChoice> choose_cards(const Config& config, const Bootstrap& bootstrap, const Locality& locality,
                                std::vector<std::string>& report) {
  auto addresses = interface_addresses();
  if (!addresses) return addresses.error();
  const InterfaceRequest request{config.interface, bootstrap.all_on_this_host(), bootstrap.local_address(),
                                 locality.interfaces};
  auto choice = choose_interface(*addresses, request);
  if (!choice) return choice.error();
  report.push_back("interface " + choice->reason);
  return find_rails(*addresses, request, choice->chosen, config.rails);
}

// Rank 0's counts; the others' need not even exist.
Status read_own_machine(const Config& config, Identity& own) {
  const bool known = config.machine == "auto" || config.machine == machine_to_probe || find_machine(config.machine);
  if (known || config.rank != 0) return {};
  auto machine = read_machine(config.machine, "FABRING_MACHINE");
  if (!machine) return machine.error();
  own.described_machine = machine_to_json(*machine);
  return {};
}

OwnGpus own_gpus(DeviceRuntime* device) {
  if (device == nullptr) return {};
  return {host_may_have_gpus(), device->in_use(), device->has_kernels()};
}

// How this rank waits depends on who else is on its processors.
void settle_waiting(const std::vector<Identity>& ranks, EngineParts& parts) {
  const int beside = ranks_beside(ranks, parts.self);
  const int cores = allowed_cpus();
  parts.cache_bytes = share_of_cache(last_cache(std::max(::sched_getcpu(), 0)), beside, cores);
  parts.waiting = WaitPolicy::choose(beside, cores);
  if (2 * beside <= cores) parts.background_waiting = parts.waiting;
  parts.waiting.home = parts.waiting.own_core() ? -1 : home_core(ranks, parts.self);
  parts.report.push_back(fmt::format("{} rank{} on the {} core{} that this rank may use: {}", beside,
                                     beside == 1 ? "" : "s", cores, cores == 1 ? "" : "s",
                                     parts.waiting.spins > 0 ? "spin, then yield, then sleep" : "yield, then sleep") +
                         (parts.waiting.home < 0 ? "" : fmt::format("; this rank on core {}", parts.waiting.home)));
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

// A job that cannot be asked is still a job.
void answer_status(EngineCore& core, std::uint64_t job_nonce, const Log& log) {
  if (!core.config().status) return;
  if (const Status opened = core.open_status_door(job_nonce); !opened.ok())
    log.info("`fabring status` will not find this rank: " + opened.message());
}

}  // namespace

Result<std::shared_ptr<EngineCore>> start_up(Config config, Store* store, std::shared_ptr<DeviceRuntime> device) {
  FABRING_TRY(check_rank(config));
  limit_timeouts(config);
  FABRING_TRY(check_settings(config));
  FABRING_TRY(check_grammar(config));
  const Log log(level_of(config.log), config.rank);
  std::string secret;
  if (!config.secret_file.empty()) {
    auto read = read_secret(config.secret_file);
    if (!read) return read.error();
    secret = std::move(*read);
  }

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
  if (parts.device && parts.device->in_use())
    parts.report.push_back(
        "GPU memory: read by ranks of this host where it is if they can, else staged through pinned memory");
  if (config.world_size == 1) {
    parts.node_of = {0};
    parts.report.push_back("one rank: nothing to connect");
    auto alone = EngineCore::make(std::move(parts));
    answer_status(*alone, random_nonce(), log);
    return alone;
  }

  const std::vector<std::string> asked = UsableTransports::asked_for(config.transport);
  if (std::find(asked.begin(), asked.end(), "fabric") != asked.end()) prepare_for_fabric();  // no thread of ours runs
  auto bootstrap = store != nullptr ? meet_by_store(config, *store, log) : rendezvous(config, secret, log);
  if (!bootstrap) return bootstrap.error();
  auto started = ControlPlane::start(config, secret, **bootstrap, log);
  if (!started) {
    (*bootstrap)->give_up(started.error());
    return started.error();
  }
  (*bootstrap)->finish();  // the control plane tells the others from here on
  std::unique_ptr<ControlPlane> control = std::move(*started);
  Gathering gather(*control);

  // Who are we, and what can each of us use.
  EndpointOptions options;
  options.self = config.rank;
  options.world_size = config.world_size;
  options.job_nonce = (*bootstrap)->job_nonce();
  options.job_id = config.job_id;
  options.secret = secret;
  options.config = config;
  options.note = [log](const std::string& text) { log.warning(text); };
  const OwnGpus gpus = own_gpus(parts.device.get());
  if (parts.device) options.device_memory = std::make_shared<CardAccess>(parts.device, gpus.of_host);
  Identity own = own_identity(config, gpus);
  const Status machine_read = read_own_machine(config, own);
  UsableTransports usable(config.transport);
  std::unique_ptr<NodeBeacon> beacon;
  // Without other hosts no card carries anything.
  const HostPlaces places = (*bootstrap)->all_on_this_host() ? HostPlaces{} : find_places(config.local_rank);
  options.near_devices = places.locality.devices;
  std::string interface;
  HostRails rails{{}, &places, own.host, log};
  Result<std::string> told = [&]() -> Result<std::string> {
    FABRING_TRY(machine_read);
    auto cards = choose_cards(config, **bootstrap, places.locality, parts.report);
    if (!cards) return cards.error();
    rails.interfaces = std::move(*cards);
    interface = rails.interfaces.rails.front().address.interface;
    options.bind_address = rails.interfaces.rails.front().address.address;
    own.link_megabits = rails.megabits();
    own.rails = rails.count();
    usable.probe_shm(options, own);
    if (own.usable.empty() || !(*bootstrap)->all_on_this_host()) FABRING_TRY(usable.probe_networks(options, own));
    auto opened = NodeBeacon::open(options.job_nonce, config.rank);
    if (!opened) return opened.error();
    beacon = std::move(*opened);
    return own.encode();
  }();
  auto identities = gather_identities(gather, told);
  if (!identities) return identities.error();
  const std::vector<Identity>& ranks = *identities;
  FABRING_TRY(compare(ranks));
  auto path = open_data_path(gather, usable, *beacon, options, rails, own, ranks);
  if (!path) return path.error();
  const Agreement agreed = agree(ranks, *path);
  parts.agreed = agreed;
  parts.config.segment_bytes = agreed.segment_bytes;
  parts.endpoint = std::move(path->endpoint);
  if (path->depth != 0 && config.depth == 0)
    parts.report.push_back(
        fmt::format("{} tiles of an operation under way, for ranks with several cards", path->depth));
  parts.node_of = std::move(path->node_of);
  parts.report.insert(parts.report.end(), path->report.begin(), path->report.end());
  if (parts.device && (parts.device->in_use() || parts.endpoint->reaches_devices()))
    parts.report.push_back("GPU memory that is sent: " + parts.endpoint->device_path());
  for (std::string& line : describe(agreed, gpus.begun)) parts.report.push_back(std::move(line));
  auto machine = choose_machine(ranks, agreed.reach, path->cards);
  if (!machine) return machine.error();
  parts.machine = std::move(machine->machine);
  parts.report.push_back("machine: " + machine->reason);

  parts.progress_cpus = settle_places(places, path->card.empty() ? interface : path->card, parts.report);
  settle_waiting(ranks, parts);
  const std::optional<ProbeScope> probe = machine->probe;
  if (!probe)
    parts.report.push_back(fmt::format("algorithms {}: priced for {}",
                                       config.algorithm == "auto" ? "chosen" : "as FABRING_ALGORITHM says",
                                       parts.machine.name));
  parts.config.sockets_per_peer = parts.endpoint->connections_per_peer();
  ControlPlane& plane = *control;
  parts.control = std::move(control);
  auto core = EngineCore::make(std::move(parts));

  FABRING_TRY(connect_all(*core, plane, config));
  if (probe) {
    auto probed = probe_machine(*core, *probe);
    if (!probed) return probed.error().with_prefix("measuring what messages cost (FABRING_MACHINE): ");
    core->add_to_report(std::move(*probed));
  }
  core->add_to_report("memory: " + memory_text(core->memory()));
  core->look_when_idle();
  answer_status(*core, options.job_nonce, log);
  // What was asked for is said whatever the level, and is no warning.
  const Log telling = config.explain && config.rank == 0 ? Log(LogLevel::info, config.rank) : log;
  for (const std::string& line : core->report()) telling.info(line);
  return core;
}

}  // namespace fabring

#include "runtime/startup/startup.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "collectives/algorithms.hpp"
#include "device/cuda/cuda_runtime.hpp"
#include "fabring/version.hpp"
#include "runtime/base/digest.hpp"
#include "runtime/base/handshake.hpp"
#include "runtime/base/named_thread.hpp"
#include "runtime/bootstrap/bootstrap.hpp"
#include "runtime/bootstrap/store_bootstrap.hpp"
#include "runtime/control/control_plane.hpp"
#include "runtime/memory/card_access.hpp"
#include "runtime/startup/config_check.hpp"
#include "runtime/startup/data_path.hpp"
#include "runtime/startup/home_core.hpp"
#include "runtime/startup/locality.hpp"
#include "runtime/startup/machine_choice.hpp"
#include "runtime/startup/machine_file.hpp"
#include "topology/cpus.hpp"
#include "topology/host_identity.hpp"
#include "topology/interfaces.hpp"

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
  parts.device = device ? std::move(device) : make_cuda_runtime();
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
  Identity own;
  own.gpus = parts.device != nullptr && ::access("/dev/nvidiactl", F_OK) == 0;
  if (parts.device) options.device_memory = std::make_shared<CardAccess>(parts.device, own.gpus);
  own.version = FABRING_VERSION;
  own.host = host_name();
  own.pid = static_cast<std::uint32_t>(::getpid());
  own.fingerprint = host_fingerprint();
  own.host_id = config.host_id;
  own.transports = config.transport;
  own.algorithm = config.algorithm;
  own.segment_bytes = config.segment_bytes;
  own.depth = static_cast<std::uint32_t>(config.depth);
  own.scratch_bytes = config.scratch_bytes;
  own.reproducible = config.reproducible;
  own.wire_type = config.wire_type ? name(*config.wire_type) : "off";
  own.machine = config.machine;
  Status machine_read = read_own_machine(config, own);
  own.cores = static_cast<std::uint32_t>(allowed_cpus());
  own.cpus = show_cpu_list(affinity_cpus());
  const bool begun = parts.device && parts.device->in_use();
  const GpuUse use = begun ? GpuUse::begun : own.gpus ? GpuUse::possible : GpuUse::none;
  own.lent_bytes = longest_lent(config, use);
  own.lends = would_lend(config, use, parts.device && parts.device->has_kernels());
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
  parts.config.segment_bytes = segment_of(ranks);
  parts.some_have_gpus = std::any_of(ranks.begin(), ranks.end(), [](const Identity& rank) { return rank.gpus; });
  auto path = open_data_path(gather, usable, *beacon, options, rails, own, ranks);
  if (!path) return path.error();
  parts.endpoint = std::move(path->endpoint);
  parts.depth_for_cards = static_cast<std::uint32_t>(path->depth);
  if (path->depth != 0 && config.depth == 0)
    parts.report.push_back(
        fmt::format("{} tiles of an operation under way, for ranks with several cards", path->depth));
  parts.node_of = std::move(path->node_of);
  parts.report.insert(parts.report.end(), path->report.begin(), path->report.end());
  if (parts.device && (parts.device->in_use() || parts.endpoint->reaches_devices()))
    parts.report.push_back("GPU memory that is sent: " + parts.endpoint->device_path());
  parts.shares_memory = path->shared_memory;
  parts.through_loopback = !parts.shares_memory && on_one_host(ranks);
  parts.least_scratch_bytes = least_scratch_of(ranks);
  if (!parts.shares_memory) parts.parcels = parcels_over_network(config.world_size, parts.least_scratch_bytes);
  // Of several cards each message takes the one that is ready, which is not known before it is asked for. Cards that
  // place messages themselves cost no processor time for them (EFA): nothing of this was measured there.
  const bool one_card = std::all_of(ranks.begin(), ranks.end(), [](const Identity& rank) { return rank.rails <= 1; });
  if (!parts.shares_memory && !parts.some_have_gpus && !path->cards && (one_card || parts.through_loopback))
    parts.parcels.landings =
        landings_over_network(config.world_size, parts.through_loopback, parts.least_scratch_bytes);
  parts.lent_segment_bytes = parts.shares_memory ? lent_segment_of(ranks, parts.node_of) : 0;
  if (parts.lent_segment_bytes != 0)
    parts.report.push_back(
        fmt::format("messages of up to {} KiB: every rank may use a GPU, and each message of its memory costs a launch "
                    "or two{}",
                    parts.lent_segment_bytes >> 10,
                    begun ? "" : " (this rank had not begun to use one; where all have, they may be longer)"));
  parts.long_segment_bytes = long_segment_of(ranks);
  const bool lent = parts.shares_memory && all_lend(ranks, parts.node_of);
  if (lent) parts.unasked_limit = unasked_limit_of(ranks, parts.node_of);
  if (parts.unasked_limit != 0)
    parts.report.push_back(
        fmt::format("messages above {} KiB are asked for, also of memory of the host: GPU memory can "
                    "then be read where it is",
                    parts.unasked_limit >> 10));
  auto machine = choose_machine(ranks,
                                lent                                       ? Reach::gpu_memory
                                : path->shared_memory || path->one_process ? Reach::shared_memory
                                : path->libfabric                          ? Reach::libfabric
                                                                           : Reach::network,
                                path->cards);
  if (!machine) return machine.error();
  parts.machine = std::move(machine->machine);
  parts.report.push_back("machine: " + machine->reason);

  const int beside = ranks_beside(ranks, config.rank);
  const int cores = allowed_cpus();
  parts.progress_cpus = settle_places(places, path->card.empty() ? interface : path->card, parts.report);
  parts.cache_bytes = share_of_cache(last_cache(std::max(::sched_getcpu(), 0)), beside, cores);
  parts.waiting = WaitPolicy::choose(beside, cores);
  if (2 * beside <= cores) parts.background_waiting = parts.waiting;
  parts.waiting.home = parts.waiting.own_core() ? -1 : home_core(ranks, config.rank);
  parts.report.push_back(fmt::format("{} rank{} on the {} core{} that this rank may use: {}", beside,
                                     beside == 1 ? "" : "s", cores, cores == 1 ? "" : "s",
                                     parts.waiting.spins > 0 ? "spin, then yield, then sleep" : "yield, then sleep") +
                         (parts.waiting.home < 0 ? "" : fmt::format("; this rank on core {}", parts.waiting.home)));
  const std::optional<ProbeScope> probe = machine->probe;
  if (!probe)
    parts.report.push_back(fmt::format("algorithms {}: priced for {}",
                                       config.algorithm == "auto" ? "chosen" : "as FABRING_ALGORITHM says",
                                       parts.machine.name));
  parts.config.sockets_per_peer = parts.endpoint->connections_per_peer();
  ControlPlane& plane = *control;
  parts.control = std::move(control);
  auto core = EngineCore::make(std::move(parts));

  // Post the first receives; no rank may send before all have. Connecting needs all of us to poll meanwhile.
  const auto deadline = std::chrono::steady_clock::now() + config.rendezvous_timeout;
  Result<std::string> ready = std::string();
  while (!core->ready_to_receive()) {
    if (const Status health = Communicator(core->world()).health(); !health.ok()) {
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
  auto barrier = start_thread("fabring-meet", [&] {
    all = Gathering(plane)(ready);
    over.store(true, std::memory_order_release);
  });
  if (barrier) {
    while (!over.load(std::memory_order_acquire)) {
      (void)core->ready_to_receive();
      std::this_thread::yield();
    }
    barrier->join();
  } else {  // the others have to hear it too
    ready = barrier.error();
    all = Gathering(plane)(ready);
  }
  if (!all) {
    const Status health = Communicator(core->world()).health();
    return health.ok() ? all.error() : health;
  }
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

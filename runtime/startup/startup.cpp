#include "runtime/startup/startup.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "collectives/algorithms.hpp"
#include "fabring/version.hpp"
#include "runtime/base/handshake.hpp"
#include "runtime/base/wire.hpp"
#include "runtime/bootstrap/bootstrap.hpp"
#include "runtime/bootstrap/store_bootstrap.hpp"
#include "runtime/control/control_plane.hpp"
#include "runtime/startup/identity.hpp"
#include "runtime/startup/nodes.hpp"
#include "topology/cpus.hpp"
#include "topology/host_identity.hpp"
#include "topology/interfaces.hpp"
#include "transports/fabric/fabric_transport.hpp"
#include "transports/tcp/tcp_transport.hpp"

namespace fabring {
namespace {

LogLevel level_of(const std::string& text) {
  if (text == "error") return LogLevel::error;
  if (text == "info") return LogLevel::info;
  if (text == "debug") return LogLevel::debug;
  return LogLevel::warning;
}

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t from = 0;
  while (from <= text.size()) {
    const std::size_t comma = std::min(text.find(',', from), text.size());
    if (comma > from) parts.push_back(text.substr(from, comma - from));
    from = comma + 1;
  }
  return parts;
}

std::unique_ptr<Transport> make_transport(const std::string& name) {
  if (name == "fabric") return make_fabric_transport();
  if (name == "tcp") return make_tcp_transport();
  return nullptr;
}

Status check_config(const Config& config) {
  if (config.world_size < 1)
    return Status(ErrorCode::invalid_argument, fmt::format("the number of ranks is {}; set FABRING_WORLD_SIZE, or start "
                                                           "the program with 'fabring run -n N' or torchrun",
                                                           config.world_size));
  if (config.rank < 0 || config.rank >= config.world_size)
    return Status(ErrorCode::invalid_argument, fmt::format("rank {} is not one of {} ranks (0 ... {}); set FABRING_RANK",
                                                           config.rank, config.world_size, config.world_size - 1));
  if (const auto overrides = parse_overrides(config.algorithm); !overrides)
    return overrides.error().with_prefix("FABRING_ALGORITHM: ");
  for (const std::string& transport : split_list(config.transport))
    if (transport != "auto" && transport != "shm" && transport != "inproc" && !make_transport(transport))
      return Status(ErrorCode::invalid_argument,
                    fmt::format("FABRING_TRANSPORT='{}': there is no transport '{}'; there are: auto, fabric, tcp",
                                config.transport, transport));
  return {};
}

/// What all ranks have gathered, decoded; an error of any rank (its blob starts with '!') is everybody's error.
class Gathering {
 public:
  explicit Gathering(ControlPlane& control) : control_(control) {}

  Result<std::vector<std::string>> operator()(const Result<std::string>& own) {
    auto blobs = control_.all_gather(own ? "+" + *own : "!" + encode(own.error()));
    if (!own) return own.error();
    if (!blobs) return blobs.error();
    for (std::size_t rank = 0; rank < blobs->size(); ++rank) {
      std::string& blob = (*blobs)[rank];
      if (blob.empty() || blob[0] == '!') {
        ErrorContext context;
        context.rank = static_cast<Rank>(rank);
        context.host = control_.host_of(static_cast<Rank>(rank));
        return Status(blob.empty() ? ErrorCode::internal : decode(blob),
                      fmt::format("rank {} (host {}) could not start: {}", rank, context.host,
                                  blob.size() > 2 ? blob.substr(2) : "no reason given"),
                      context);
      }
      blob.erase(0, 1);
    }
    return blobs;
  }

 private:
  static std::string encode(const Status& status) {
    return std::string(1, static_cast<char>(static_cast<int>(status.code()))) + status.message().substr(0, 4096);
  }
  static ErrorCode decode(const std::string& blob) {
    const auto code = blob.size() > 1 ? static_cast<unsigned char>(blob[1]) : 0;
    return code >= 1 && code <= static_cast<int>(ErrorCode::internal) ? static_cast<ErrorCode>(code)
                                                                      : ErrorCode::internal;
  }
  ControlPlane& control_;
};

struct Opened {
  std::unique_ptr<Transport> transport;
  std::string name;
};

/// Probes what was asked for, in order; fills what an Identity says about it.
std::vector<Opened> probe(const Config& config, const EndpointOptions& options, Identity& identity) {
  std::vector<Opened> usable;
  std::vector<std::string> wanted = split_list(config.transport);
  const auto automatic = std::find(wanted.begin(), wanted.end(), "auto");
  if (automatic != wanted.end() || wanted.empty()) wanted = {"fabric", "tcp"};
  for (const std::string& name : wanted) {
    std::unique_ptr<Transport> transport = make_transport(name);
    if (!transport) {
      identity.unusable += fmt::format("{}{}: not part of this build", identity.unusable.empty() ? "" : "; ", name);
      continue;
    }
    auto reason = transport->probe(options);
    if (reason) {
      identity.usable.push_back(name);
      usable.push_back({std::move(transport), name});
    } else {
      identity.unusable +=
          fmt::format("{}{}: {}", identity.unusable.empty() ? "" : "; ", name, reason.error().message());
    }
  }
  return usable;
}

Result<InterfaceAddress> bind_address(const Config& config, const Bootstrap& bootstrap,
                                      std::vector<std::string>& report) {
  auto addresses = interface_addresses();
  if (!addresses) return addresses.error();
  auto choice = choose_interface(
      *addresses, {config.interface, bootstrap.all_on_this_host(), bootstrap.local_address()});
  if (!choice) return choice.error();
  report.push_back("interface " + choice->reason);
  return choice->chosen;
}

std::string describe_nodes(const std::vector<int>& node_of) {
  std::vector<int> sizes;
  for (int node : node_of) {
    if (node >= static_cast<int>(sizes.size())) sizes.resize(node + 1);
    ++sizes[node];
  }
  return fmt::format("{} node{} with {} ranks", sizes.size(), sizes.size() == 1 ? "" : "s", fmt::join(sizes, ", "));
}

}  // namespace

Result<std::shared_ptr<EngineCore>> start_up(Config config, Store* store) {
  FABRING_TRY(check_config(config));
  const Log log(level_of(config.log), config.rank);
  std::string secret;
  if (!config.secret_file.empty()) {
    auto read = read_secret(config.secret_file);
    if (!read) return read.error();
    secret = std::move(*read);
  }

  EngineParts parts;
  parts.config = config;
  parts.overrides = *parse_overrides(config.algorithm);  // check_config has seen it
  parts.machine = *find_machine("loopback-tcp");
  parts.self = config.rank;
  parts.world_size = config.world_size;
  parts.clock = std::make_shared<SteadyClock>();
  parts.log = log;
  if (config.world_size == 1) {
    parts.node_of = {0};
    parts.report.push_back("one rank: nothing to connect");
    return EngineCore::make(std::move(parts));
  }

  auto bootstrap = store != nullptr ? meet_by_store(config, *store) : rendezvous(config, secret, log);
  if (!bootstrap) return bootstrap.error();
  auto started = ControlPlane::start(config, secret, **bootstrap, log);
  if (!started) return started.error();
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
  Identity own;
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
  own.machine = config.machine;
  own.cores = static_cast<std::uint32_t>(allowed_cpus());
  std::vector<Opened> usable;
  std::unique_ptr<NodeBeacon> beacon;
  Result<std::string> told = [&]() -> Result<std::string> {
    auto address = bind_address(config, **bootstrap, parts.report);
    if (!address) return address.error();
    options.bind_address = address->address;
    own.link_megabits = link_megabits(address->interface);
    usable = probe(config, options, own);
    auto opened = NodeBeacon::open(options.job_nonce, config.rank);
    if (!opened) return opened.error();
    beacon = std::move(*opened);
    return own.encode();
  }();
  auto blobs = gather(told);
  if (!blobs) return blobs.error();
  std::vector<Identity> ranks;
  for (const std::string& blob : *blobs) {
    auto identity = Identity::decode(blob);
    if (!identity) return identity.error();
    ranks.push_back(std::move(*identity));
  }
  FABRING_TRY(compare(ranks));
  auto transport = common_transport(ranks);
  if (!transport) return transport.error();
  parts.machine = machine_of(ranks);
  parts.config.segment_bytes = segment_of(ranks);

  // Open it, and tell the address and the node.
  const auto chosen = std::find_if(usable.begin(), usable.end(), [&](const Opened& one) { return one.name == *transport; });
  auto endpoint = chosen->transport->open(options);
  blobs = gather(endpoint ? Result<std::string>(WireWriter()
                                                    .number(std::int32_t{beacon->find_leader(ranks)})
                                                    .text((*endpoint)->address(), 1024)
                                                    .take())
                          : Result<std::string>(endpoint.error()));
  if (!blobs) return blobs.error();
  std::vector<Rank> leaders;
  std::vector<std::string> addresses;
  for (const std::string& blob : *blobs) {
    WireReader in(blob);
    leaders.push_back(in.number<std::int32_t>());
    addresses.emplace_back(in.text(1024));
    if (!in.complete()) return Status(ErrorCode::mismatch, "a rank sent an address that cannot be read");
  }
  auto nodes = number_nodes(leaders);
  if (!nodes) return nodes.error();
  parts.node_of = std::move(*nodes);
  for (Rank rank = 0; rank < config.world_size; ++rank)
    if (rank != config.rank) FABRING_TRY((*endpoint)->add_peer(rank, addresses[rank]));

  const auto on_this_host = static_cast<int>(std::count_if(
      ranks.begin(), ranks.end(), [&](const Identity& rank) { return rank.fingerprint == own.fingerprint; }));
  const int cores = allowed_cpus();
  parts.waiting = WaitPolicy::choose(on_this_host, cores);
  if (2 * on_this_host <= cores) parts.background_waiting = parts.waiting;
  parts.report.push_back(fmt::format("transport {}: {}", *transport, (*endpoint)->describe()));
  if (!own.unusable.empty()) parts.report.push_back("not used: " + own.unusable);
  parts.report.push_back(describe_nodes(parts.node_of));
  parts.report.push_back(fmt::format("{} ranks of this host on {} cores: {}", on_this_host, cores,
                                     parts.waiting.spins > 0 ? "spin, then yield, then sleep" : "yield, then sleep"));
  parts.report.push_back(fmt::format("algorithms {}: priced for {}",
                                     config.algorithm == "auto" ? "chosen" : "as FABRING_ALGORITHM says",
                                     parts.machine.name));
  parts.config.sockets_per_peer = (*endpoint)->connections_per_peer();
  parts.endpoint = std::move(*endpoint);
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
      ready = Status(ErrorCode::timeout, "could not connect the data path to every rank before FABRING_RENDEZVOUS_TIMEOUT");
      break;
    }
    std::this_thread::yield();
  }
  Result<std::vector<std::string>> all = Status(ErrorCode::internal, "");
  std::atomic<bool> over{false};
  std::thread barrier([&] {
    all = Gathering(plane)(ready);
    over.store(true, std::memory_order_release);
  });
  while (!over.load(std::memory_order_acquire)) {
    (void)core->ready_to_receive();
    std::this_thread::yield();
  }
  barrier.join();
  if (!all) {
    const Status health = Communicator(core->world()).health();
    return health.ok() ? all.error() : health;
  }
  if (config.explain || log.wants(LogLevel::info))
    for (const std::string& line : core->report())
      log.write(config.explain && config.rank == 0 ? LogLevel::warning : LogLevel::info, line);
  return core;
}

}  // namespace fabring

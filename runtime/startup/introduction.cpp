#include "runtime/startup/introduction.hpp"

#include <utility>

#include "collectives/cost/machine.hpp"
#include "device/cuda/cuda_runtime.hpp"
#include "runtime/memory/card_access.hpp"
#include "runtime/startup/machine_choice.hpp"
#include "runtime/startup/machine_file.hpp"
#include "topology/interfaces.hpp"

namespace fabring {
namespace {

// The interface chosen, and the cards beside it.
Result<RailChoice> choose_cards(const Config& config, const Bootstrap& bootstrap, const Locality& locality,
                                std::vector<std::string>& report) {
  auto addresses = interface_addresses();
  if (!addresses) return addresses.error();
  const InterfaceRequest request{config.interface, bootstrap.all_on_this_host(), bootstrap.local_address(),
                                 locality.interfaces};
  auto choice = choose_interface(*addresses, request);
  if (!choice) return choice.error();
  std::string line = "interface " + choice->reason;
  if (!config.interface.empty())
    for (const std::string& item : unmatched_items(*addresses, config.interface, card_names())) line += "; " + item;
  report.push_back(std::move(line));
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

EndpointOptions options_for(const EngineParts& parts, const std::string& secret, const Bootstrap& bootstrap) {
  EndpointOptions options;
  options.self = parts.self;
  options.world_size = parts.world_size;
  options.job_nonce = bootstrap.job_nonce();
  options.job_id = parts.config.job_id;
  options.secret = secret;
  options.config = parts.config;
  options.note = [log = parts.log](const std::string& text) { log.warning(text); };
  return options;
}

// What this rank tells the others.
Result<std::string> look_around(const Config& config, const Bootstrap& bootstrap, Introduction& made) {
  FABRING_TRY(read_own_machine(config, made.own));
  made.own.apart = !bootstrap.all_on_this_host();
  auto cards = choose_cards(config, bootstrap, made.places->locality, made.report);
  if (!cards) return cards.error();
  made.rails.interfaces = std::move(*cards);
  const InterfaceAddress& first = made.rails.interfaces.rails.front().address;
  made.interface = first.interface;
  made.options.bind_address = first.address;
  made.own.link_megabits = made.rails.megabits();
  made.own.rails = made.rails.count();
  made.usable.probe_shm(made.options, made.own);
  if (made.own.usable.empty() || !bootstrap.all_on_this_host())
    FABRING_TRY(made.usable.probe_networks(made.options, made.own));
  auto opened = NodeBeacon::open(made.options.job_nonce, made.options.self);
  if (!opened) return opened.error();
  made.beacon = std::move(*opened);
  return made.own.encode();
}

}  // namespace

Result<Introduction> introduce(const EngineParts& parts, const std::string& secret, const Bootstrap& bootstrap,
                               Gathering& gather) {
  const Config& config = parts.config;
  const OwnGpus gpus = own_gpus(parts.device.get());
  Introduction made{.options = options_for(parts, secret, bootstrap),
                    .gpus = gpus,
                    .own = own_identity(config, gpus),
                    .usable = UsableTransports(config.transport)};
  if (parts.device) made.options.device_memory = std::make_shared<CardAccess>(parts.device, gpus.of_host);
  // Without other hosts no card carries anything.
  made.places =
      std::make_unique<const HostPlaces>(bootstrap.all_on_this_host() ? HostPlaces{} : find_places(config.local_rank));
  made.options.near_devices = made.places->locality.devices;
  made.rails = {{}, made.places.get(), made.own.host, parts.log};
  auto ranks = gather_identities(gather, look_around(config, bootstrap, made));
  if (!ranks) return ranks.error();
  FABRING_TRY(compare(*ranks));
  made.ranks = std::move(*ranks);
  return made;
}

}  // namespace fabring

#include "runtime/startup/config_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "collectives/choice/overrides.hpp"
#include "runtime/base/handshake.hpp"
#include "runtime/base/parse_value.hpp"
#include "runtime/base/settings.hpp"
#include "runtime/startup/congestion_check.hpp"
#include "runtime/startup/machine_choice.hpp"
#include "runtime/startup/machine_file.hpp"
#include "runtime/startup/usable_transports.hpp"
#include "topology/interfaces.hpp"
#include "transports/fabric/fabric_transport.hpp"

namespace fabring {
namespace {

Status check_algorithm(const Config& config) {
  const auto overrides = parse_overrides(config.algorithm);
  return overrides ? Status() : overrides.error().with_prefix("FABRING_ALGORITHM: ");
}

Status check_transport(const Config& config) { return UsableTransports::check(config.transport); }

Status check_interface(const Config& config) { return check_interface_filter(config.interface); }

// libfabric is asked for names that are not ours: not for a job that does not use it.
Status check_provider(const Config& config) {
  const std::vector<std::string> asked = UsableTransports::asked_for(config.transport);
  const bool used = std::find(asked.begin(), asked.end(), "fabric") != asked.end();
  return used ? check_fabric_provider(config.provider) : Status();
}

Status check_machine(const Config& config) {
  if (config.rank > 0) return {};  // rank 0's counts; a file need not be on the others' hosts
  if (config.machine == "auto" || config.machine == machine_to_probe) return {};
  const auto machine = read_machine(config.machine, "FABRING_MACHINE");
  return machine ? Status() : machine.error();
}

Status check_secret(const Config& config) {
  if (config.secret_file.empty()) return {};
  const auto secret = read_secret(config.secret_file);
  return secret ? Status() : secret.error();
}

}  // namespace

Status check_rank(const Config& config) {
  if (config.world_size < 1)
    return Status(ErrorCode::invalid_argument,
                  fmt::format("the number of ranks is {}; set FABRING_WORLD_SIZE, or start "
                              "the program with 'fabring run -n N' or torchrun",
                              config.world_size));
  if (config.rank < 0 || config.rank >= config.world_size)
    return Status(ErrorCode::invalid_argument,
                  fmt::format("rank {} is not one of {} ranks (0 ... {}); set FABRING_RANK", config.rank,
                              config.world_size, config.world_size - 1));
  return {};
}

void limit_timeouts(Config& config) {
  for (const auto field :
       {&Config::rendezvous_timeout, &Config::timeout, &Config::silence_timeout, &Config::leave_timeout})
    config.*field = std::min(config.*field, longest_duration);
}

Status check_settings(const Config& config) {
  Config scratch;
  for (const Setting& row : settings())
    if (const std::string text = row.show(config); !text.empty()) FABRING_TRY(apply_setting(row, text, scratch));
  return {};
}

std::vector<RefusedValue> refused_values(const Config& config) {
  constexpr std::pair<std::string_view, Status (*)(const Config&)> checks[] = {
      {"FABRING_ALGORITHM", check_algorithm},
      {"FABRING_TRANSPORT", check_transport},
      {"FABRING_PROVIDER", check_provider},
      {"FABRING_INTERFACE", check_interface},
      {"FABRING_CONGESTION_CONTROL", check_congestion_name},
      {"FABRING_MACHINE", check_machine},
      {"FABRING_SECRET_FILE", check_secret}};
  std::vector<RefusedValue> refused;
  for (const auto& [setting, check] : checks)
    if (Status why = check(config); !why.ok()) refused.push_back({setting, std::move(why)});
  return refused;
}

Status check_interface_here(const Config& config) {
  const auto addresses = interface_addresses();
  if (config.interface.empty() || !addresses) return {};
  // Where the ranks are, and which way the master is, decides among those that are left only.
  for (const InterfaceAddress& one : *addresses)
    if (!usable_interfaces({one}, {config.interface, true, one.address}).empty()) return {};
  const auto choice = choose_interface(*addresses, {config.interface, true, ""});
  return choice ? Status() : choice.error();
}

Status check_grammar(const Config& config) {
  for (const auto check : {check_algorithm, check_transport, check_provider, check_interface, check_congestion_name})
    FABRING_TRY(check(config));
  return {};
}

}  // namespace fabring

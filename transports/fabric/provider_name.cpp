// FABRING_PROVIDER as a name: is it one that libfabric has? Whether what it names finds a card is provider_choice's.

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/nearest_name.hpp"
#include "transports/fabric/fabric_transport.hpp"
#include "transports/fabric/libfabric.hpp"
#include "transports/fabric/provider_choice.hpp"

namespace fabring {
namespace {

constexpr std::string_view words_of_ours[] = {"auto", "efa", "tcp", "rxm"};
// A provider of cards names itself only on a host that has one; these are the ones of libfabric 1.17 to 2.x.
constexpr std::string_view card_providers[] = {"bgq", "cxi", "efa",  "gni",  "lpp", "mlx",   "netdir",
                                               "opx", "psm", "psm2", "psm3", "ucx", "usnic", "verbs"};

bool is_one_of(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// "verbs;ofi_rxm": a provider and what lies above it.
std::vector<std::string_view> parts_of(std::string_view wanted) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = wanted.find(';');
    parts.push_back(wanted.substr(0, end));
    if (end == std::string_view::npos) return parts;
    wanted.remove_prefix(end + 1);
  }
}

Status unknown(const std::string& wanted, std::string_view part, std::vector<std::string_view> names) {
  std::string list;
  for (const std::string_view name : names)
    if (!name.starts_with("ofi_") && name != "shm") list += (list.empty() ? "" : ", ") + std::string(name);
  names.insert(names.end(), std::begin(card_providers), std::end(card_providers));
  return {ErrorCode::invalid_argument, "FABRING_PROVIDER='" + wanted + "': libfabric " + fabric::library_version() +
                                           " has no provider '" + std::string(part) + "'" + did_you_mean(part, names) +
                                           "; there are: " + list};
}

}  // namespace

Status check_fabric_provider(const std::string& wanted) {
  if (is_one_of(words_of_ours, wanted) || is_one_of(card_providers, wanted)) return {};
  if (!fabric::load_libfabric().ok()) return {};  // there is no fabric transport then, whatever it was to use
  const std::vector<std::string> present = fabric::present_providers();
  std::vector<std::string_view> names(std::begin(words_of_ours), std::end(words_of_ours));
  for (const std::string& name : present)
    if (!is_one_of(names, name)) names.push_back(name);
  for (const std::string_view part : parts_of(wanted)) {
    if (is_one_of(card_providers, part) || std::find(present.begin(), present.end(), part) != present.end()) continue;
    return unknown(wanted, part, std::move(names));
  }
  return {};
}

}  // namespace fabring

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <span>

#include "runtime/base/nearest_name.hpp"
#include "topology/interfaces.hpp"

namespace fabring {
namespace {

// An IPv4 or IPv6 address as bytes, for comparing networks.
struct Bytes {
  std::array<unsigned char, 16> value{};
  int bits = 0;
};

std::optional<Bytes> bytes_of(const std::string& address) {
  Bytes bytes;
  if (::inet_pton(AF_INET, address.c_str(), bytes.value.data()) == 1) {
    bytes.bits = 32;
  } else if (::inet_pton(AF_INET6, address.c_str(), bytes.value.data()) == 1) {
    bytes.bits = 128;
  } else {
    return std::nullopt;
  }
  return bytes;
}

bool inside(const std::string& address, const Bytes& network, int prefix) {
  const std::optional<Bytes> bytes = bytes_of(address);
  if (!bytes || bytes->bits != network.bits) return false;
  for (int bit = 0; bit < prefix; ++bit) {
    const auto at = static_cast<std::size_t>(bit / 8);
    const int mask = 0x80 >> (bit % 8);
    if ((bytes->value[at] & mask) != (network.value[at] & mask)) return false;
  }
  return true;
}

// One item of the filter.
struct Pattern {
  std::string text;  // as given
  std::string name;  // of an interface; ends in * for a beginning
  Bytes network;
  int prefix = -1;  // >= 0: a network
  bool matches(const InterfaceAddress& candidate) const {
    if (prefix >= 0) return inside(candidate.address, network, prefix);
    return is_name_of(candidate.interface) || (!candidate.label.empty() && is_name_of(candidate.label));
  }
  bool is_name_of(std::string_view card) const {
    if (name.ends_with('*')) return card.starts_with(std::string_view(name).substr(0, name.size() - 1));
    return prefix < 0 && card == name;
  }
};

struct Filter {
  bool deny = false;
  std::vector<Pattern> patterns;
};

Result<Filter> parse_filter(std::string_view text) {
  const auto bad = [whole = std::string(text)](const std::string& why) {
    return Status(ErrorCode::invalid_argument,
                  "FABRING_INTERFACE=" + whole + ": " + why + " (write eth0,ib0 or eth* or ^docker0,lo or 10.0.0.0/8)");
  };
  Filter filter;
  if (text.starts_with('^')) {
    filter.deny = true;
    text.remove_prefix(1);
    if (text.empty()) return bad("nothing follows the ^");
  }
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    std::string item(text.substr(0, comma));
    item.erase(std::remove(item.begin(), item.end(), ' '), item.end());
    if (item.empty() || comma + 1 == text.size()) return bad("the list has an empty item");
    if (item.starts_with('^')) return bad("^ may stand only in front of the whole list");
    Pattern pattern;
    pattern.text = item;
    if (const std::size_t slash = item.find('/'); slash != std::string::npos) {
      const std::optional<Bytes> network = bytes_of(item.substr(0, slash));
      const char *first = item.data() + slash + 1, *last = item.data() + item.size();
      const auto [rest, error] = std::from_chars(first, last, pattern.prefix);
      if (!network || first == last || error != std::errc{} || rest != last || pattern.prefix < 0 ||
          pattern.prefix > network->bits)
        return bad("'" + item + "' is not a network");
      pattern.network = *network;
    } else if (const std::optional<Bytes> address = bytes_of(item)) {
      pattern.network = *address;
      pattern.prefix = address->bits;
    } else {
      pattern.name = item;
    }
    filter.patterns.push_back(std::move(pattern));
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
  return filter;
}

bool link_local(const InterfaceAddress& candidate) {
  static const Bytes v4 = *bytes_of("169.254.0.0"), v6 = *bytes_of("fe80::");
  return inside(candidate.address, v4, 16) || inside(candidate.address, v6, 10);
}

// "br-0a1b2c3d4e5f"; "br-ex" and "br-eno1" are a host's own, over its card.
bool is_docker_network(std::string_view interface) {
  return interface.size() == 15 && interface.starts_with("br-") &&
         interface.find_first_not_of("0123456789abcdef", 3) == std::string_view::npos;
}

// Bridges and tunnels that container systems make: they are up, have addresses, and lead nowhere.
bool container_made(std::string_view interface) {
  for (std::string_view beginning : {"docker", "veth", "virbr", "cni", "flannel", "cali", "podman", "lxcbr", "lxdbr",
                                     "kube-ipvs", "cilium_", "nodelocaldns", "tunl"})
    if (interface.starts_with(beginning)) return true;
  return is_docker_network(interface);
}

// Why this address can not be used, or nothing. What the user named is only held to be up and of the right reach.
std::optional<std::string> objection(const InterfaceAddress& candidate, const Filter& filter,
                                     const InterfaceRequest& request) {
  const bool listed = std::any_of(filter.patterns.begin(), filter.patterns.end(),
                                  [&](const Pattern& pattern) { return pattern.matches(candidate); });
  if (!filter.patterns.empty() && listed == filter.deny) return "not allowed by FABRING_INTERFACE=" + request.filter;
  if (!candidate.up) return "down";
  if (candidate.loopback && !request.one_host) return "loopback, and some ranks are on other hosts";
  if (link_local(candidate) && candidate.v6) return "link-local";
  const bool wanted = !filter.deny && listed;
  const bool leads_to_master = !request.towards_master.empty() && candidate.address == request.towards_master;
  if (wanted || leads_to_master) return std::nullopt;
  if (link_local(candidate)) return "link-local";
  if (container_made(candidate.interface)) return "made by a container system, leads to no other host";
  return std::nullopt;
}

// 0: not near; the first of those that are near has the most.
int nearness_of(const InterfaceAddress& candidate, const InterfaceRequest& request) {
  const auto at = std::find(request.near.begin(), request.near.end(), candidate.interface);
  return std::min<int>(static_cast<int>(request.near.end() - at), 255);
}

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::vector<Pattern> without_match(const std::vector<InterfaceAddress>& addresses, const Filter& filter) {
  std::vector<Pattern> found;
  for (const Pattern& pattern : filter.patterns)
    if (std::none_of(addresses.begin(), addresses.end(), [&](const auto& a) { return pattern.matches(a); }))
      found.push_back(pattern);
  return found;
}

// Of an allow list of which nothing is left: items that match nothing here, and what there is. Empty if all match.
std::string nothing_matches(const std::vector<InterfaceAddress>& addresses, const Filter& filter) {
  std::vector<std::string> missing, networks, names, there;
  for (const Pattern& pattern : without_match(addresses, filter))
    (pattern.prefix >= 0 ? networks : missing).push_back(pattern.text);
  if (filter.deny || missing.size() + networks.size() < filter.patterns.size() || filter.patterns.empty()) return {};
  for (const InterfaceAddress& address : addresses) {
    const bool listed = std::find(names.begin(), names.end(), address.interface) != names.end();
    if (!listed) names.push_back(address.interface);
    if (!networks.empty())
      there.push_back(address.interface + " " + address.address);
    else if (!listed)
      there.push_back(address.interface);
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  const std::string guess = missing.size() == 1 && networks.empty() ? did_you_mean(missing.front(), known) : "";
  std::string text = "this host has ";
  if (!missing.empty()) text += "no interface " + list_of(missing);
  if (!networks.empty()) text += (missing.empty() ? "no address in " : ", no address in ") + list_of(networks);
  text += guess + (guess.empty() ? "; it has " : " It has ");
  return text + (there.empty() ? "none with an address" : list_of(there));
}

}  // namespace

Status check_interface_filter(std::string_view filter) {
  const auto parsed = parse_filter(filter);
  return parsed ? Status() : parsed.error();
}

std::vector<std::string> unmatched_items(const std::vector<InterfaceAddress>& addresses, std::string_view filter,
                                         const std::vector<std::string>& cards) {
  const auto parsed = parse_filter(filter);
  if (!parsed) return {};
  std::vector<std::string> unmatched;
  for (const Pattern& pattern : without_match(addresses, *parsed)) {
    if (std::ranges::any_of(cards, [&](const std::string& card) { return pattern.is_name_of(card); })) continue;
    if (parsed->deny && (container_made(pattern.text) || pattern.text == "br-*")) continue;
    unmatched.push_back(pattern.text +
                        (pattern.prefix >= 0 ? ": no address of this host is in it" : ": no such interface here"));
  }
  return unmatched;
}

std::vector<InterfaceAddress> usable_interfaces(const std::vector<InterfaceAddress>& addresses,
                                                const InterfaceRequest& request) {
  std::vector<InterfaceAddress> usable;
  if (const auto filter = parse_filter(request.filter))
    for (const InterfaceAddress& candidate : addresses)
      if (!objection(candidate, *filter, request)) usable.push_back(candidate);
  return usable;
}

Result<InterfaceChoice> choose_interface(const std::vector<InterfaceAddress>& addresses,
                                         const InterfaceRequest& request) {
  auto filter = parse_filter(request.filter);
  if (!filter) return filter.error();
  InterfaceChoice choice;
  const InterfaceAddress* best = nullptr;
  int best_score = -1;
  for (const InterfaceAddress& candidate : addresses) {
    if (auto why = objection(candidate, *filter, request)) {
      choice.rejected.push_back(candidate.interface + " " + candidate.address + ": " + *why);
      continue;
    }
    // Loopback when it is enough; else, of those the user named, the nearest in the master's family; else the way to
    // the master; else IPv4 before IPv6; else the nearest; else the kernel's order.
    const int nearness = nearness_of(candidate, request);
    const bool named = !filter->deny && !filter->patterns.empty();
    const bool masters_family = request.towards_master.empty()
                                    ? !candidate.v6
                                    : candidate.v6 == (request.towards_master.find(':') != std::string::npos);
    int score = nearness + (candidate.v6 ? 0 : 1 << 8);
    if (!request.towards_master.empty() && candidate.address == request.towards_master) score += 1 << 9;
    if (named && masters_family) score += nearness << 10;
    if (request.one_host && candidate.loopback) score += 1 << 20;
    if (score > best_score) {
      best_score = score;
      best = &candidate;
    }
  }
  // Those with the same reason together.
  const auto rejections = [&] {
    std::vector<std::pair<std::string, std::string>> groups;
    for (const std::string& line : choice.rejected) {
      const std::size_t colon = line.find(": ");
      const std::string reason = line.substr(colon), one = line.substr(0, colon);
      const auto same = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == reason; });
      if (same == groups.end())
        groups.emplace_back(reason, one);
      else
        same->second += ", " + one;
    }
    std::string text;
    for (const auto& [reason, which] : groups) text += (text.empty() ? "" : "; ") + which + reason;
    return text;
  };
  if (const std::string nothing = best == nullptr ? nothing_matches(addresses, *filter) : ""; !nothing.empty())
    return Status(ErrorCode::unavailable, "FABRING_INTERFACE=" + request.filter + ": " + nothing);
  if (best == nullptr)
    return Status(ErrorCode::unavailable,
                  "no network interface can be used: " +
                      (choice.rejected.empty() ? std::string("this host has none") : rejections()) +
                      ". Set FABRING_INTERFACE to one that reaches the other hosts");
  choice.chosen = *best;
  choice.reason = best->interface + " " + best->address + ": ";
  if (request.one_host && best->loopback)
    choice.reason += "all ranks are on this host";
  else if (!request.towards_master.empty() && best->address == request.towards_master)
    choice.reason += "on the way to the master";
  else if (nearness_of(*best, request) > 0)
    choice.reason += "near this rank's GPU or processors";
  else if (!request.filter.empty())
    choice.reason += "first allowed by FABRING_INTERFACE=" + request.filter;
  else
    choice.reason += "first usable";
  if (!choice.rejected.empty()) choice.reason += " (not " + rejections() + ")";
  return choice;
}

}  // namespace fabring

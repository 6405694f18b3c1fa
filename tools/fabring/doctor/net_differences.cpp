#include "tools/fabring/doctor/net_differences.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "runtime/base/rank_list.hpp"
#include "runtime/base/settings.hpp"
#include "runtime/startup/usable_transports.hpp"

namespace fabring::tools {
namespace {

constexpr std::int64_t most_skew_us = 100'000;

class Comparing {
 public:
  explicit Comparing(const NetPicture& picture) : picture_(picture) {}

  Findings findings() {
    differences();
    clocks();
    return std::move(found_);
  }

 private:
  std::size_t size() const { return picture_.ranks.size(); }

  // Who has which value of something; more than one value is a difference, the most frequent is taken for right.
  void compare(const char* id, Severity severity, const std::string& what,
               const std::map<std::string, std::vector<Rank>>& by, const char* why, const char* fix) {
    if (by.size() < 2) return;
    const auto most = std::max_element(by.begin(), by.end(),
                                       [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    std::string text;
    for (const auto& [value, ranks] : by)
      if (value != most->first)
        text += fmt::format("{}{} on {} (host {})", text.empty() ? "" : ", ", value.empty() ? "not set" : value,
                            rank_list(ranks), picture_.host(ranks.front()));
    found_.push_back({id, severity,
                      fmt::format("{} differs: {}; {} on {}", what, text, most->first.empty() ? "not set" : most->first,
                                  rank_list(most->second)),
                      why, fix, ""});
  }

  template <class Value>
  std::map<std::string, std::vector<Rank>> by(const Value& value) const {
    std::map<std::string, std::vector<Rank>> groups;
    for (std::size_t rank = 0; rank < size(); ++rank)
      if (picture_.ranks[rank]) groups[value(*picture_.ranks[rank])].push_back(static_cast<Rank>(rank));
    return groups;
  }

  // What holds there: "1" and "yes", or a default that is spelled out and one that is not, are the same.
  static std::string setting(const NetFacts& facts, const std::string& name) {
    const Setting* row = find_setting(name);
    std::string text;
    for (const std::string& line : facts.settings)
      if (line.starts_with(name + "=")) text = line.substr(name.size() + 1);
    if (row == nullptr) return text;
    Config config;
    if (!text.empty() && !row->read(*row, text, config).ok()) return text;
    const std::string shown = row->show(config);
    return shown.empty() ? default_text(*row) : shown;
  }

  // What comes of it that ranks have different values.
  struct Meaning {
    Severity severity;
    const char* why;
  };

  Meaning meaning_of(const std::string& name, const std::map<std::string, std::vector<Rank>>& values) const {
    if (const Setting* row = find_setting(name); row != nullptr && row->alike)
      return {Severity::critical, "a job whose ranks differ in it does not start"};
    if (name == "FABRING_PROVIDER") return meaning_of_providers(values);
    return {Severity::warning, "ranks may choose and wait differently"};
  }

  // Ranks find out which providers they have, and go by another network where these differ and one is allowed. What
  // auto comes to may be what others name.
  Meaning meaning_of_providers(const std::map<std::string, std::vector<Rank>>& values) const {
    const bool other_network = std::ranges::any_of(picture_.ranks, [](const std::optional<NetFacts>& facts) {
      return facts && std::ranges::count(UsableTransports::asked_for(setting(*facts, "FABRING_TRANSPORT")), "tcp") > 0;
    });
    if (!other_network && !values.contains("auto"))
      return {
          Severity::critical,
          "ranks with different providers do not reach each other by libfabric, and FABRING_TRANSPORT names no other "
          "network: the job does not start"};
    return {Severity::warning,
            "ranks with different providers do not reach each other by libfabric: the job goes by the next transport, "
            "and where FABRING_TRANSPORT names none it does not start"};
  }

  void differences() {
    compare("net.version", Severity::critical, "the version of Fabring",
            by([](const NetFacts& facts) { return facts.version; }), "a job of several versions does not start",
            "install the same version on all hosts");
    std::set<std::string> names;
    for (const auto& facts : picture_.ranks)
      if (facts)
        for (const std::string& line : facts->settings) names.insert(line.substr(0, line.find('=')));
    for (const std::string& name : names) {
      const auto values = by([&](const NetFacts& facts) { return setting(facts, name); });
      const Meaning meaning = meaning_of(name, values);
      compare("net.settings", meaning.severity, name, values, meaning.why,
              "set it alike on all ranks; `fabring settings` shows where a value comes from");
    }
    compare("net.interfaces", Severity::warning, "the set of network interfaces", by([](const NetFacts& facts) {
              std::string names_of;
              for (const std::string& line : facts.interfaces)
                names_of += (names_of.empty() ? "" : " ") + line.substr(0, line.find(' '));
              return names_of;
            }),
            "a host with another NIC or one that is down makes the whole job slower, or is reached another way",
            "`ip link` there; bring the interface up, or leave it out everywhere with FABRING_INTERFACE");
    cards();
    // Where ranks were told different things that is the cause, and said already.
    if (by([&](const NetFacts& facts) {
          return setting(facts, "FABRING_TRANSPORT") + setting(facts, "FABRING_PROVIDER");
        }).size() < 2)
      compare("net.networks", Severity::warning, "what works between hosts", by([](const NetFacts& facts) {
                std::string names_of;
                for (const std::string& network : facts.networks)
                  names_of += (names_of.empty() ? "" : " ") + network +
                              (network == "fabric" && !facts.provider.empty() ? " (" + facts.provider + ")" : "");
                return names_of;
              }),
              "a job takes the first that works on every rank, libfabric by one provider: one host without it or "
              "without EFA "
              "makes all go without",
              "`fabring doctor host` there says why it does not work (fabric.transport)");
  }

  // The cards that data travel on, network by network.
  void cards() {
    std::set<std::string> networks;
    std::set<std::string> needed;  // addresses without which there is no job
    for (std::size_t rank = 0; rank < size(); ++rank) {
      if (!picture_.ranks[rank]) continue;
      bool first_found = false;  // of those for data; a job leaves out others that fail
      for (const Door& door : picture_.ranks[rank]->doors) {
        if (!door.fabric.empty()) continue;
        const bool first = door.carries_data() && !std::exchange(first_found, true);
        if (first || door.is_control()) needed.insert(door.host_address());
        if (door.carries_data()) networks.insert(door.network);
      }
    }
    for (const std::string& network : networks) {
      const auto in_use = [&](const NetFacts& facts) -> const Door* {
        for (const Door& door : facts.doors)
          if (door.carries_data() && door.network == network && door.fabric.empty()) return &door;
        return nullptr;
      };
      std::map<std::string, std::vector<Rank>> by_mtu, by_name;
      for (std::size_t rank = 0; rank < size(); ++rank)
        if (const Door* door = picture_.ranks[rank] ? in_use(*picture_.ranks[rank]) : nullptr) {
          by_mtu[std::to_string(door->mtu)].push_back(static_cast<Rank>(rank));
          by_name[door->interface].push_back(static_cast<Rank>(rank));
        }
      compare("net.mtu_differs", Severity::warning, "the MTU of the interfaces in use on " + network, by_mtu,
              "TCP gets by with the smaller one; other traffic of that size is dropped without a word",
              "make it the same on all hosts and switch ports");
      compare("net.interface", Severity::info, "the interface in use on " + network, by_name, "", "");
    }
    for (const auto& [address, hosts] : picture_.holders()) {
      if (hosts.size() < 2) continue;
      std::string text;
      for (const auto& [key, ranks] : hosts)
        text +=
            fmt::format("{}{} (host {})", text.empty() ? "" : " and ", rank_list(ranks), picture_.host(ranks.front()));
      const bool fatal = needed.contains(address);
      found_.push_back({"net.address_twice", fatal ? Severity::critical : Severity::warning,
                        fmt::format("hosts have the same address {}: {}", address, text),
                        fatal ? "what is sent to it arrives at one of them or the other, as it happens"
                              : "a job leaves these cards out, and has that much less bandwidth",
                        "give one of them another address: a cloned machine, or a fixed address inside a DHCP range",
                        ""});
    }
  }

  void clocks() {
    // Against rank 0's, by the shortest way; each host once.
    std::set<std::string> told;
    if (picture_.probes.empty() || !picture_.probes[0]) return;
    for (const Probe& probe : *picture_.probes[0]) {
      const std::int64_t sure = std::abs(probe.offset_us) - probe.rtt_us / 2;
      if (probe.reach != Reach::fine || sure < most_skew_us || picture_.host_key(probe.to) == picture_.host_key(0) ||
          !told.insert(picture_.host_key(probe.to)).second)
        continue;
      found_.push_back({"net.clock", Severity::warning,
                        fmt::format("its clock is {:.1f} s {} that of rank 0 (host {})",
                                    static_cast<double>(std::abs(probe.offset_us)) / 1e6,
                                    probe.offset_us > 0 ? "ahead of" : "behind", picture_.host(0)),
                        "logs and traces of the two do not line up, and certificates may not be valid yet",
                        "let chrony or systemd-timesyncd set the clocks", picture_.who(probe.to)});
    }
  }

  const NetPicture& picture_;
  Findings found_;
};

}  // namespace

Findings differences(const NetPicture& picture) { return Comparing(picture).findings(); }

}  // namespace fabring::tools

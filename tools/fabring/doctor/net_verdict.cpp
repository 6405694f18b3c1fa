#include "tools/fabring/doctor/net_verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

#include "runtime/base/rank_list.hpp"

namespace fabring::tools {
namespace {

constexpr std::uint32_t slow_large_ms =
    800;  // resent after a timeout; nothing else takes so long where answers are fast
constexpr std::uint32_t fast_rtt_us = 50'000;
constexpr std::int64_t most_skew_us = 100'000;
constexpr std::size_t most_of_a_kind = 8;

struct Advice {
  Reach reach;
  const char* id;
  const char* what;
  const char* why;
  const char* fix;
};

constexpr auto why_unreachable = "a job needs a connection between any two of its ranks";
constexpr std::array advices{
    Advice{
        Reach::refused, "net.refused", "refused: nobody listens at that address and port, or a firewall says no",
        why_unreachable,
        "check that the address is that host's (FABRING_INTERFACE chooses another), and that no firewall rejects TCP "
        "between the hosts: ranks listen at ports that the system chooses"},
    Advice{Reach::no_answer, "net.dropped", "no answer: packets are dropped on the way, there or back", why_unreachable,
           "let a firewall or security group pass all TCP ports between the hosts (on EC2: a rule with the group "
           "itself as "
           "source and one with itself as destination); an address on a network that is not connected gives the same: "
           "FABRING_INTERFACE chooses"},
    Advice{Reach::no_route, "net.no_route", "no way there from that host", why_unreachable,
           "`ip route get ADDRESS` on the first host shows what it would do; add the route, or choose a network that "
           "joins all hosts with FABRING_INTERFACE"},
    Advice{
        Reach::cut, "net.reset", "the connection is accepted and then reset or closed", why_unreachable,
        "something between the hosts breaks connections that it does not know: a proxy, a service mesh, an intrusion "
        "detection; exempt these hosts from it"},
    Advice{Reach::mute, "net.mute", "the connection is accepted, then nothing comes", why_unreachable,
           "something in between accepts in the other's place (a proxy, a load balancer), or packets with data are "
           "dropped: look at MTU and firewall"},
    Advice{Reach::wrong_service, "net.wrong_service", "something else answers there", why_unreachable,
           "the address leads to another host or to a proxy: two hosts with one address, or a translation in between"},
    Advice{Reach::turned_away, "net.turned_away", "another rank answers there", why_unreachable,
           "make all ranks run the same version of Fabring with the same FABRING_JOB_ID and secret; two hosts with one "
           "address give the same"},
    Advice{
        Reach::large_stalls, "net.mtu", "small messages pass, 64 KiB do not arrive",
        "a job starts, and hangs with the first large message",
        "an MTU is smaller somewhere on the way than at both ends and nobody says so: make the MTU the same on hosts "
        "and "
        "switch ports, or smaller on the hosts (`ip link set dev IF mtu 1400`); `ping -M do -s 1472 ADDRESS` finds the "
        "limit"},
};

const Advice* advice_for(Reach reach) {
  const auto at = std::find_if(advices.begin(), advices.end(), [&](const Advice& one) { return one.reach == reach; });
  return at == advices.end() ? nullptr : &*at;
}

class Judge {
 public:
  explicit Judge(const NetPicture& picture) : picture_(picture) {
    for (const auto& facts : picture_.ranks) hosts_.insert(facts ? facts->fingerprint : "");
    hosts_.erase("");
  }

  Findings findings() {
    untold();
    unreachable();
    slow_large();
    differences();
    clocks();
    if (std::none_of(found_.begin(), found_.end(), [](const Finding& one) { return one.severity > Severity::info; }))
      fine();
    return std::move(found_);
  }

 private:
  struct Failure {
    Rank from, to;
    const Probe* probe;
  };

  std::size_t size() const { return picture_.ranks.size(); }
  const std::string& host_key(Rank rank) const {
    static const std::string unknown;
    const auto& facts = picture_.ranks[static_cast<std::size_t>(rank)];
    return facts ? facts->fingerprint : unknown;
  }
  std::string host(Rank rank) const {
    const auto& facts = picture_.ranks[static_cast<std::size_t>(rank)];
    return facts ? facts->host : "?";
  }
  std::string who(Rank rank) const { return fmt::format("rank {} (host {})", rank, host(rank)); }
  const Door* door(Rank rank, std::uint8_t number) const {
    const auto& facts = picture_.ranks[static_cast<std::size_t>(rank)];
    return facts && number < facts->doors.size() ? &facts->doors[number] : nullptr;
  }

  void untold() {
    std::vector<Rank> silent;
    for (std::size_t rank = 0; rank < size(); ++rank) {
      const auto& facts = picture_.ranks[rank];
      if (!facts || !picture_.probes[rank]) silent.push_back(static_cast<Rank>(rank));
      if (facts && !facts->problem.empty())
        found_.push_back({"net.no_door", Severity::critical, "it cannot listen: " + facts->problem, why_unreachable,
                          "`fabring doctor host` there says more", who(static_cast<Rank>(rank))});
    }
    if (!silent.empty())
      found_.push_back({"net.untold", Severity::not_checked,
                        rank_list(silent) + (silent.size() == 1 ? " has" : " have") + " not told what it found in time",
                        "", "look at the output there; give more time with --timeout", ""});
  }

  void unreachable() {
    // By what happened, between which hosts, to which of the doors.
    std::map<std::tuple<Reach, std::string, std::string, std::uint8_t>, std::vector<Failure>> groups;
    std::size_t untried = 0;
    for (std::size_t from = 0; from < size(); ++from) {
      if (!picture_.probes[from]) continue;
      for (const Probe& probe : *picture_.probes[from]) {
        if (probe.to < 0 || static_cast<std::size_t>(probe.to) >= size()) continue;
        if (probe.reach == Reach::not_tried) ++untried;
        if (advice_for(probe.reach) == nullptr) continue;
        groups[{probe.reach, host_key(static_cast<Rank>(from)), host_key(probe.to), probe.door}].push_back(
            {static_cast<Rank>(from), probe.to, &probe});
      }
    }
    if (untried > 0)
      found_.push_back({"net.untried", Severity::not_checked,
                        fmt::format("{} connections were not tried in time", untried), "",
                        "give more time with --timeout", ""});
    for (const bool to_it : {true, false}) whole_hosts(groups, to_it);
    std::map<Reach, std::size_t> told;
    for (const auto& [key, failures] : groups)
      if (told[std::get<0>(key)]++ < most_of_a_kind) pair(failures);
    for (const auto& [reach, count] : told)
      if (count > most_of_a_kind)
        found_.push_back({advice_for(reach)->id, Severity::critical,
                          fmt::format("the same between {} more pairs of hosts", count - most_of_a_kind),
                          advice_for(reach)->why, advice_for(reach)->fix, ""});
  }

  // Every other host fails alike with one host: that host is the cause.
  template <class Groups>
  void whole_hosts(Groups& groups, bool to_it) {
    if (hosts_.size() < 3) return;
    std::map<std::tuple<Reach, std::string, std::uint8_t>, std::set<std::string>> others;
    for (const auto& [key, failures] : groups) {
      const auto& [reach, from, to, number] = key;
      if (from != to) others[{reach, to_it ? to : from, number}].insert(to_it ? from : to);
    }
    for (const auto& [key, which] : others) {
      if (which.size() + 1 < hosts_.size()) continue;
      const auto& [reach, one, number] = key;
      std::vector<Failure> all;
      for (auto at = groups.begin(); at != groups.end();) {
        const auto& [r, from, to, n] = at->first;
        const bool part = r == reach && n == number && from != to && (to_it ? to : from) == one;
        if (part) all.insert(all.end(), at->second.begin(), at->second.end());
        at = part ? groups.erase(at) : std::next(at);
      }
      const Failure& first = all.front();
      const Advice& advice = *advice_for(reach);
      const Rank named = to_it ? first.to : first.from;
      found_.push_back({advice.id, Severity::critical,
                        fmt::format("{} {}: {}{}", to_it ? "no other host reaches it" : "it reaches no other host",
                                    place(named, first), advice.what, words(*first.probe)) +
                            (reach == Reach::large_stalls ? mtus(first) : std::string()),
                        advice.why, advice.fix, fmt::format("host {} ({})", host(named), ranks_of(one))});
    }
  }

  std::string ranks_of(const std::string& key) const {
    std::vector<Rank> ranks;
    for (std::size_t rank = 0; rank < size(); ++rank)
      if (host_key(static_cast<Rank>(rank)) == key) ranks.push_back(static_cast<Rank>(rank));
    return rank_list(ranks);
  }

  std::string place(Rank named, const Failure& failure) const {
    const Door* there = door(failure.to, failure.probe->door);
    if (there == nullptr || named != failure.to) return "";
    return fmt::format("at {} ({}, for {})", there->address, there->interface, there->purpose);
  }

  static std::string words(const Probe& probe) {
    return probe.text.empty() ? std::string() : fmt::format(" ({})", probe.text);
  }

  void pair(const std::vector<Failure>& failures) {
    const Failure& first = failures.front();
    const Advice& advice = *advice_for(first.probe->reach);
    const Door* there = door(first.to, first.probe->door);
    std::string what = advice.what + words(*first.probe);
    if (there != nullptr && first.probe->text.find(there->address) == std::string::npos)
      what += fmt::format(", at {}", there->address);
    if (there != nullptr) what += fmt::format(" ({}, for {})", there->interface, there->purpose);
    what += back(first);
    if (first.probe->reach == Reach::large_stalls) what += mtus(first);
    if (failures.size() > 1)
      what += fmt::format("; the same for {} more pairs of ranks of these hosts", failures.size() - 1);
    found_.push_back({advice.id, Severity::critical, std::move(what), advice.why, advice.fix,
                      who(first.from) + " -> " + who(first.to)});
  }

  // One direction alone says where to look.
  std::string back(const Failure& failure) const {
    const auto& probes = picture_.probes[static_cast<std::size_t>(failure.to)];
    if (!probes) return "";
    bool tried = false, fine = true;
    for (const Probe& probe : *probes)
      if (probe.to == failure.from) {
        tried = true;
        fine = fine && probe.reach == Reach::fine;
      }
    return !tried ? "" : fine ? "; the other direction works" : "; the other direction fails too";
  }

  std::string mtus(const Failure& failure) const {
    const Door* there = door(failure.to, failure.probe->door);
    std::string text = fmt::format("; TCP sends segments of {} bytes", failure.probe->segment);
    if (failure.probe->path_mtu > 0)
      text += fmt::format(", the kernel takes the path for one of {}", failure.probe->path_mtu);
    if (there != nullptr && there->mtu > 0) text += fmt::format(", the interface there has MTU {}", there->mtu);
    return text;
  }

  void slow_large() {
    std::size_t told = 0;
    for (std::size_t from = 0; from < size(); ++from) {
      if (!picture_.probes[from]) continue;
      for (const Probe& probe : *picture_.probes[from])
        if (probe.reach == Reach::fine && probe.large_ms >= slow_large_ms && probe.rtt_us < fast_rtt_us &&
            told++ < most_of_a_kind)
          found_.push_back({"net.slow_large", Severity::warning,
                            fmt::format("64 KiB took {} ms, though a small message is back after {} us", probe.large_ms,
                                        probe.rtt_us),
                            "packets are lost and sent again: an MTU that is smaller on the way, or a lossy link",
                            "compare the MTUs on the way; look at the error counters of both interfaces (ip -s link)",
                            who(static_cast<Rank>(from)) + " -> " + who(probe.to)});
    }
  }

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
                            rank_list(ranks), host(ranks.front()));
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

  void differences() {
    compare("net.version", Severity::critical, "the version of Fabring",
            by([](const NetFacts& facts) { return facts.version; }), "a job of several versions does not start",
            "install the same version on all hosts");
    std::set<std::string> names;
    for (const auto& facts : picture_.ranks)
      if (facts)
        for (const std::string& line : facts->settings) names.insert(line.substr(0, line.find('=')));
    for (const std::string& name : names) {
      static const std::set<std::string_view> alike{"FABRING_TRANSPORT",    "FABRING_ALGORITHM",
                                                    "FABRING_REPRODUCIBLE", "FABRING_SEGMENT_BYTES",
                                                    "FABRING_DEPTH",        "FABRING_PROVIDER"};
      const bool matters = alike.contains(name);
      compare("net.settings", matters ? Severity::critical : Severity::warning, name, by([&](const NetFacts& facts) {
                for (const std::string& line : facts.settings)
                  if (line.starts_with(name + "=")) return line.substr(name.size() + 1);
                return std::string();
              }),
              matters ? "a job whose ranks differ in it does not start" : "ranks may choose and wait differently",
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
    compare("net.mtu_differs", Severity::warning, "the MTU of the interface in use", by([](const NetFacts& facts) {
              return facts.doors.empty() ? std::string() : std::to_string(facts.doors.back().mtu);
            }),
            "TCP gets by with the smaller one; other traffic of that size is dropped without a word",
            "make it the same on all hosts and switch ports");
    compare("net.interface", Severity::info, "the interface in use", by([](const NetFacts& facts) {
              return facts.doors.empty() ? std::string() : facts.doors.back().interface;
            }),
            "", "");
  }

  void clocks() {
    // Against rank 0's, by the shortest way; each host once.
    std::set<std::string> told;
    if (picture_.probes.empty() || !picture_.probes[0]) return;
    for (const Probe& probe : *picture_.probes[0]) {
      const std::int64_t sure = std::abs(probe.offset_us) - probe.rtt_us / 2;
      if (probe.reach != Reach::fine || sure < most_skew_us || host_key(probe.to) == host_key(0) ||
          !told.insert(host_key(probe.to)).second)
        continue;
      found_.push_back({"net.clock", Severity::warning,
                        fmt::format("its clock is {:.1f} s {} that of rank 0 (host {})",
                                    static_cast<double>(std::abs(probe.offset_us)) / 1e6,
                                    probe.offset_us > 0 ? "ahead of" : "behind", host(0)),
                        "logs and traces of the two do not line up, and certificates may not be valid yet",
                        "let chrony or systemd-timesyncd set the clocks", who(probe.to)});
    }
  }

  void fine() {
    std::size_t probes = 0;
    std::uint32_t slowest_us = 0;
    for (const auto& of_rank : picture_.probes)
      if (of_rank)
        for (const Probe& probe : *of_rank) {
          ++probes;
          slowest_us = std::max(slowest_us, probe.rtt_us);
        }
    found_.push_back({"net.reachable", Severity::ok,
                      fmt::format("all {} ranks reach each other: {} connections, each with 16 bytes and 64 KiB; the "
                                  "slowest answer took {} us",
                                  size(), probes, slowest_us),
                      "", "", ""});
  }

  const NetPicture& picture_;
  std::set<std::string> hosts_;
  Findings found_;
};

}  // namespace

Findings judge(const NetPicture& picture) { return Judge(picture).findings(); }

}  // namespace fabring::tools

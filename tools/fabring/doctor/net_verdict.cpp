#include "tools/fabring/doctor/net_verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

#include "runtime/base/rank_list.hpp"
#include "tools/fabring/doctor/net_advice.hpp"
#include "tools/fabring/doctor/net_calls.hpp"
#include "tools/fabring/doctor/net_differences.hpp"

namespace fabring::tools {
namespace {

constexpr std::uint32_t slow_large_ms =
    800;  // resent after a timeout; nothing else takes so long where answers are fast
constexpr std::uint32_t fast_rtt_us = 50'000;
constexpr std::size_t most_of_a_kind = 8;

class NetJudge {
 public:
  explicit NetJudge(const NetPicture& picture) : picture_(picture) {
    for (const auto& facts : picture_.ranks) hosts_.insert(facts ? facts->fingerprint : "");
    hosts_.erase("");
    for (const auto& [address, hosts] : picture_.holders())
      if (hosts.size() > 1) of_several_.insert(address);
  }

  Findings findings() {
    untold();
    unreachable();
    unrouted();
    slow_large();
    for (Finding& one : differences(picture_)) found_.push_back(std::move(one));
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
  const std::string& host_key(Rank rank) const { return picture_.host_key(rank); }
  std::string host(Rank rank) const { return picture_.host(rank); }
  std::string who(Rank rank) const { return picture_.who(rank); }
  const Door* door(Rank rank, std::uint8_t number) const { return picture_.door(rank, number); }

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
                        rank_list(silent) +
                            (silent.size() == 1 ? " has not told what it" : " have not told what they") +
                            " found in time",
                        "", "look at the output there; give more time with --timeout", ""});
    too_many();
  }

  void too_many() {
    std::size_t doors = 0;
    for (std::size_t rank = 0; rank < size(); ++rank) {
      if (!picture_.ranks[rank]) continue;
      const NetFacts& facts = *picture_.ranks[rank];
      doors += facts.doors.size();
      if (facts.doors_left_out > 0)
        found_.push_back({"net.too_many", Severity::not_checked,
                          fmt::format("it has {} ports, more than can be told: {} of them were not tried",
                                      facts.doors.size() + facts.doors_left_out, facts.doors_left_out),
                          "", "choose fewer cards with FABRING_INTERFACE, and look at the others in a second run",
                          who(static_cast<Rank>(rank))});
    }
    if (picture_.bytes_of_doors_untold > 0)
      found_.push_back({"net.too_many", Severity::not_checked,
                        fmt::format("{} ranks with {} ports in all are too many ({} KB of addresses): no connection "
                                    "was tried",
                                    size(), doors, picture_.bytes_of_doors_untold / 1000),
                        "", "run it with one rank per host (srun --ntasks-per-node=1), or on some of the hosts", ""});
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
        if (advice_for(probe.reach) == nullptr || said_already(static_cast<Rank>(from), probe) ||
            is_lost_between(static_cast<Rank>(from), probe))
          continue;
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

  // A door for libfabric of a card at which our own port fails as well says nothing more.
  bool said_already(Rank from, const Probe& probe) const {
    const Door* there = door(probe.to, probe.door);
    if (there == nullptr || there->fabric.empty()) return false;
    for (const Probe& other : *picture_.probes[static_cast<std::size_t>(from)]) {
      const Door* beside = door(probe.to, other.door);
      if (other.to == probe.to && beside != nullptr && beside->fabric.empty() && beside->carries_data() &&
          beside->interface == there->interface && other.reach != Reach::fine)
        return true;
    }
    return false;
  }

  // Packets to an address that several hosts have go to one of them now, to the other a moment later, so that what was
  // begun stops in the middle. That is no MTU; of the address net.address_twice tells.
  bool is_lost_between(Rank from, const Probe& probe) const {
    const Door* there = door(probe.to, probe.door);
    if (probe.reach != Reach::large_stalls || there == nullptr) return false;
    const auto is_of_several = [this](const Door& door) { return of_several_.contains(door.host_address()); };
    if (is_of_several(*there)) return true;
    const auto& caller = picture_.ranks[static_cast<std::size_t>(from)];
    return caller && std::ranges::any_of(caller->doors, [&](const Door& here) {
             return here.network == there->network && is_of_several(here);
           });
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
      found_.push_back({advice.id, severity_of(first),
                        fmt::format("{}{}: {}{}", to_it ? "no other host reaches it" : "it reaches no other host",
                                    place(named, first), advice.what, words(*first.probe)) +
                            (reach == Reach::large_stalls ? mtus(first) : std::string()),
                        why_of(first, advice), advice.fix, fmt::format("host {} ({})", host(named), ranks_of(one))});
    }
  }

  // Beside the first card: a job tries it with an empty message and leaves it out where that does not come back.
  bool is_spare(const Failure& failure) const {
    const Door* there = door(failure.to, failure.probe->door);
    if (there == nullptr || !there->carries_data() || failure.probe->reach == Reach::large_stalls) return false;
    for (std::uint8_t number = 0; number < failure.probe->door; ++number)
      if (const Door* before = door(failure.to, number);
          before->carries_data() && before->fabric.empty() == there->fabric.empty())
        return true;
    return false;
  }
  Severity severity_of(const Failure& failure) const {
    return is_spare(failure) ? Severity::warning : Severity::critical;
  }
  const char* why_of(const Failure& failure, const Advice& advice) const {
    return is_spare(failure)
               ? "a job leaves this card out where nothing comes through, and has that much less bandwidth"
               : advice.why;
  }

  std::string ranks_of(const std::string& key) const {
    std::vector<Rank> ranks;
    for (std::size_t rank = 0; rank < size(); ++rank)
      if (host_key(static_cast<Rank>(rank)) == key) ranks.push_back(static_cast<Rank>(rank));
    return rank_list(ranks);
  }

  std::string place(Rank named, const Failure& failure) const {
    const Door* there = door(failure.to, failure.probe->door);
    if (there == nullptr) return "";
    if (named != failure.to) return fmt::format(" at its port on {}, for {}", there->network, there->purpose);
    return fmt::format(" at {} ({}, for {})", there->address, there->interface, there->purpose);
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
    found_.push_back({advice.id, severity_of(first), std::move(what), why_of(first, advice), advice.fix,
                      who(first.from) + " -> " + who(first.to)});
  }

  // One direction alone says where to look.
  std::string back(const Failure& failure) const {
    const auto& probes = picture_.probes[static_cast<std::size_t>(failure.to)];
    if (!probes) return "";
    bool tried = false, fine = true;
    for (const Probe& probe : *probes) {
      const bool called = probe.reach != Reach::not_tried && probe.reach != Reach::unrouted;
      if (probe.to != failure.from || !called || !joined(failure, probe)) continue;
      tried = true;
      fine = fine && probe.reach == Reach::fine;
    }
    return !tried ? "" : fine ? "; the other direction works" : "; the other direction fails too";
  }

  // Is it the way back of the same card? The same kind of door, and joined to it.
  bool joined(const Failure& failure, const Probe& back) const {
    const Door *there = door(failure.to, failure.probe->door), *here = door(failure.from, back.door);
    if (there == nullptr || here == nullptr) return true;
    if (here->fabric.empty() != there->fabric.empty()) return false;
    if (!here->carries_data() || !there->carries_data()) return here->is_control() && there->is_control();
    const auto pair = pair_of(failure.to, failure.from, back.door);
    return pair && pair->own == failure.probe->door;
  }

  // Of this door of `to`, what a job joins to it; nothing if it is joined to none.
  std::optional<DoorPair> pair_of(Rank from, Rank to, std::uint8_t number) const {
    const Door* there = door(to, number);
    if (there == nullptr || !picture_.ranks[static_cast<std::size_t>(from)]) return std::nullopt;
    for (const DoorPair& pair :
         joined_doors(from, picture_.ranks[static_cast<std::size_t>(from)]->doors, to,
                      picture_.ranks[static_cast<std::size_t>(to)]->doors, !there->fabric.empty()))
      if (pair.theirs == number) return pair;
    return std::nullopt;
  }

  // Which card of its host a door of our port for data is on, by the order in which all ranks know them.
  std::size_t card_number(std::size_t rank, std::size_t door) const {
    const std::vector<Door>& doors = picture_.ranks[rank]->doors;
    return static_cast<std::size_t>(
        std::count_if(doors.begin(), doors.begin() + static_cast<std::ptrdiff_t>(door),
                      [](const Door& one) { return one.carries_data() && one.fabric.empty(); }));
  }

  // As a job warns: of each rank's cards once.
  void unrouted() {
    std::size_t told = 0;
    for (std::size_t from = 0; from < size(); ++from) {
      if (!picture_.probes[from]) continue;
      std::set<std::uint8_t> doors;  // of one number are on one card, but where hosts differ
      std::set<std::size_t> cards;
      for (const Probe& probe : *picture_.probes[from]) {
        if (probe.reach != Reach::unrouted || probe.to < 0 || static_cast<std::size_t>(probe.to) >= size()) continue;
        if (!doors.insert(probe.door).second) continue;
        const auto pair = pair_of(static_cast<Rank>(from), probe.to, probe.door);
        if (!pair || !cards.insert(pair->own).second || told++ >= most_of_a_kind) continue;
        const Door &here = picture_.ranks[from]->doors[pair->own], &there = *door(probe.to, probe.door);
        found_.push_back(
            {"net.unrouted", Severity::warning,
             fmt::format("card {} carries nothing to {}: packets from {} to {} would not leave by it, as the kernel "
                         "routes by the destination alone",
                         here.interface, who(probe.to), here.host_address(), there.host_address()),
             "a job leaves this card out, and has that much less bandwidth",
             rails::source_routing(card_of(here), card_number(from, pair->own)), who(static_cast<Rank>(from))});
      }
    }
    if (told > most_of_a_kind)
      found_.push_back({"net.unrouted", Severity::warning,
                        fmt::format("the same of {} more cards", told - most_of_a_kind),
                        "a job leaves these cards out, and has that much less bandwidth",
                        "routing by source on each host, as above", ""});
  }

  std::string mtus(const Failure& failure) const {
    const Door* there = door(failure.to, failure.probe->door);
    std::string text;  // over libfabric neither is known
    if (failure.probe->segment > 0) text += fmt::format("; TCP sends segments of {} bytes", failure.probe->segment);
    if (failure.probe->path_mtu > 0)
      text += fmt::format("; the kernel takes the path for one of {}", failure.probe->path_mtu);
    if (there != nullptr && there->mtu > 0) text += fmt::format("; the interface there has MTU {}", there->mtu);
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
  std::set<std::string> of_several_;  // addresses
  Findings found_;
};

}  // namespace

const std::string& NetPicture::host_key(Rank rank) const {
  static const std::string unknown;
  const auto& facts = ranks[static_cast<std::size_t>(rank)];
  return facts ? facts->fingerprint : unknown;
}

std::string NetPicture::host(Rank rank) const {
  const auto& facts = ranks[static_cast<std::size_t>(rank)];
  return facts ? facts->host : "?";
}

std::string NetPicture::who(Rank rank) const { return fmt::format("rank {} (host {})", rank, host(rank)); }

const Door* NetPicture::door(Rank rank, std::uint8_t number) const {
  const auto& facts = ranks[static_cast<std::size_t>(rank)];
  return facts && number < facts->doors.size() ? &facts->doors[number] : nullptr;
}

std::map<std::string, std::map<std::string, std::vector<Rank>>> NetPicture::holders() const {
  std::map<std::string, std::map<std::string, std::vector<Rank>>> found;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!ranks[rank]) continue;
    for (const Door& door : ranks[rank]->doors) {
      if (!door.fabric.empty()) continue;
      auto& of_host = found[door.host_address()][host_key(static_cast<Rank>(rank))];
      if (of_host.empty() || of_host.back() != static_cast<Rank>(rank)) of_host.push_back(static_cast<Rank>(rank));
    }
  }
  return found;
}

Findings judge(const NetPicture& picture) { return NetJudge(picture).findings(); }

}  // namespace fabring::tools

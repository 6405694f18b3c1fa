#include "tools/fabring/doctor/net_facts.hpp"

#include <algorithm>

namespace fabring::tools {
namespace {

constexpr std::size_t most_fact_text = 200;
constexpr std::size_t most_fabric = 256;
constexpr std::size_t most_doors = 40;  // control, and two for each of sixteen cards
constexpr std::size_t most_lines = 40;
constexpr std::uint32_t most_probes = 1 << 16;

std::string shown(std::string_view text) {
  std::string clean(text);
  for (char& c : clean)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return clean;
}

void put(WireWriter& out, const std::vector<std::string>& lines) {
  const std::size_t count = std::min(lines.size(), most_lines);
  out.number(static_cast<std::uint8_t>(count));
  for (std::size_t i = 0; i < count; ++i) out.text(lines[i], most_fact_text);
}

std::vector<std::string> take_lines(WireReader& in) {
  std::vector<std::string> lines;
  const auto count = in.number<std::uint8_t>();
  for (int i = 0; i < count && in.ok(); ++i) lines.push_back(shown(in.text(most_fact_text)));
  return lines;
}

}  // namespace

void put(WireWriter& out, const Door& door) {
  out.text(door.purpose, most_fact_text).text(door.interface, most_fact_text).text(door.network, most_fact_text);
  out.text(door.address, most_fact_text).text(door.fabric, most_fabric).number(door.mtu);
}

Door take_door(WireReader& in) {
  Door door;
  door.purpose = shown(in.text(most_fact_text));
  door.interface = shown(in.text(most_fact_text));
  door.network = shown(in.text(most_fact_text));
  door.address = shown(in.text(most_fact_text));
  door.fabric = std::string(in.text(most_fabric));
  door.mtu = in.number<std::uint32_t>();
  return door;
}

std::string NetFacts::encode() const {
  WireWriter out;
  out.number(rank)
      .text(host, most_fact_text)
      .text(fingerprint, most_fact_text)
      .text(version, most_fact_text)
      .number(pid);
  out.text(problem, most_fact_text).number(static_cast<std::uint8_t>(std::min(doors.size(), most_doors)));
  for (std::size_t i = 0; i < std::min(doors.size(), most_doors); ++i) tools::put(out, doors[i]);
  put(out, settings);
  put(out, interfaces);
  put(out, networks);
  return out.take();
}

std::optional<NetFacts> NetFacts::decode(std::string_view bytes) {
  WireReader in(bytes);
  NetFacts facts;
  facts.rank = in.number<Rank>();
  facts.host = shown(in.text(most_fact_text));
  facts.fingerprint = shown(in.text(most_fact_text));
  facts.version = shown(in.text(most_fact_text));
  facts.pid = in.number<std::uint32_t>();
  facts.problem = shown(in.text(most_fact_text));
  const auto doors = in.number<std::uint8_t>();
  if (doors > most_doors) return std::nullopt;
  for (int i = 0; i < doors && in.ok(); ++i) facts.doors.push_back(take_door(in));
  facts.settings = take_lines(in);
  facts.interfaces = take_lines(in);
  facts.networks = take_lines(in);
  if (!in.complete()) return std::nullopt;
  return facts;
}

// Most of them are fine, and then short: a rank of a thousand sends 25 KiB.
std::string encode(const std::vector<Probe>& probes) {
  WireWriter out;
  out.number(static_cast<std::uint32_t>(probes.size()));
  for (const Probe& probe : probes) {
    out.number(probe.to).number(probe.door).number(static_cast<std::uint8_t>(probe.reach));
    out.number(probe.rtt_us)
        .number(
            static_cast<std::int32_t>(std::clamp<std::int64_t>(probe.offset_us / 1000, -2'000'000'000, 2'000'000'000)));
    out.number(static_cast<std::uint16_t>(std::min<std::uint32_t>(probe.large_ms, 65535)));
    out.number(static_cast<std::uint16_t>(std::min<std::uint32_t>(probe.path_mtu, 65535))).number(probe.segment);
    const bool spoke = probe.reach != Reach::fine && !probe.text.empty();
    out.number(static_cast<std::uint8_t>(spoke));
    if (spoke) out.text(probe.text, most_fact_text);
  }
  return out.take();
}

std::optional<std::vector<Probe>> decode_probes(std::string_view bytes, int world) {
  WireReader in(bytes);
  std::vector<Probe> probes;
  const auto count = in.number<std::uint32_t>();
  if (count > most_probes) return std::nullopt;
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
    Probe probe;
    probe.to = in.number<Rank>();
    probe.door = in.number<std::uint8_t>();
    const auto reach = in.number<std::uint8_t>();
    if (probe.to < 0 || probe.to >= world || reach > static_cast<std::uint8_t>(Reach::not_tried)) return std::nullopt;
    probe.reach = static_cast<Reach>(reach);
    probe.rtt_us = in.number<std::uint32_t>();
    probe.offset_us = std::int64_t{in.number<std::int32_t>()} * 1000;
    probe.large_ms = in.number<std::uint16_t>();
    probe.path_mtu = in.number<std::uint16_t>();
    probe.segment = in.number<std::uint16_t>();
    if (in.number<std::uint8_t>() != 0) probe.text = shown(in.text(most_fact_text));
    probes.push_back(std::move(probe));
  }
  if (!in.complete()) return std::nullopt;
  return probes;
}

}  // namespace fabring::tools

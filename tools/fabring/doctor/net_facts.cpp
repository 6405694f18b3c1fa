#include "tools/fabring/doctor/net_facts.hpp"

#include <algorithm>
#include <map>

namespace fabring::tools {
namespace {

constexpr std::size_t most_fact_text = 200;
constexpr std::size_t most_fabric = 256;
constexpr std::size_t most_doors = 81;  // control, one for each of sixteen cards, libfabric's on 64 devices
constexpr std::size_t most_texts = 150;
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
  const std::size_t count = std::min(doors.size(), most_doors);
  const std::size_t left_out = doors_left_out + doors.size() - count;
  out.text(provider, most_fact_text).text(problem, most_fact_text).number(static_cast<std::uint8_t>(count));
  for (std::size_t i = 0; i < count; ++i) tools::put(out, doors[i]);
  out.number(static_cast<std::uint16_t>(std::min<std::size_t>(left_out, 65535)));
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
  facts.provider = shown(in.text(most_fact_text));
  facts.problem = shown(in.text(most_fact_text));
  const auto doors = in.number<std::uint8_t>();
  if (doors > most_doors) return std::nullopt;
  for (int i = 0; i < doors && in.ok(); ++i) facts.doors.push_back(take_door(in));
  facts.doors_left_out = in.number<std::uint16_t>();
  facts.settings = take_lines(in);
  facts.interfaces = take_lines(in);
  facts.networks = take_lines(in);
  if (!in.complete()) return std::nullopt;
  return facts;
}

// Words are sent once, however many probes ended with them, and not more than anybody reads: a rank of thousands of
// doors sends 21 bytes for each.
std::string encode(const std::vector<Probe>& probes) {
  std::map<std::string, std::uint8_t> numbers;  // from 1
  WireWriter texts, out;
  const auto number_of = [&](const Probe& probe) -> std::uint8_t {
    if (probe.reach == Reach::fine || probe.text.empty()) return 0;
    const std::string text = probe.text.substr(0, most_fact_text);
    if (const auto known = numbers.find(text); known != numbers.end()) return known->second;
    if (numbers.size() == most_texts) return 0;
    texts.text(text, most_fact_text);
    return numbers.emplace(text, static_cast<std::uint8_t>(numbers.size() + 1)).first->second;
  };
  for (const Probe& probe : probes) {
    out.number(probe.to).number(probe.door).number(static_cast<std::uint8_t>(probe.reach));
    out.number(probe.rtt_us)
        .number(
            static_cast<std::int32_t>(std::clamp<std::int64_t>(probe.offset_us / 1000, -2'000'000'000, 2'000'000'000)));
    out.number(static_cast<std::uint16_t>(std::min<std::uint32_t>(probe.large_ms, 65535)));
    out.number(static_cast<std::uint16_t>(std::min<std::uint32_t>(probe.path_mtu, 65535))).number(probe.segment);
    out.number(number_of(probe));
  }
  return WireWriter()
      .number(static_cast<std::uint8_t>(numbers.size()))
      .raw(texts.take())
      .number(static_cast<std::uint32_t>(probes.size()))
      .raw(out.take())
      .take();
}

std::optional<std::vector<Probe>> decode_probes(std::string_view bytes, int world) {
  WireReader in(bytes);
  std::vector<Probe> probes;
  std::vector<std::string> texts{""};
  const auto different = in.number<std::uint8_t>();
  for (int i = 0; i < different && in.ok(); ++i) texts.push_back(shown(in.text(most_fact_text)));
  const auto count = in.number<std::uint32_t>();
  if (count > most_probes) return std::nullopt;
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
    Probe probe;
    probe.to = in.number<Rank>();
    probe.door = in.number<std::uint8_t>();
    const auto reach = in.number<std::uint8_t>();
    if (probe.to < 0 || probe.to >= world || reach > static_cast<std::uint8_t>(Reach::unrouted)) return std::nullopt;
    probe.reach = static_cast<Reach>(reach);
    probe.rtt_us = in.number<std::uint32_t>();
    probe.offset_us = std::int64_t{in.number<std::int32_t>()} * 1000;
    probe.large_ms = in.number<std::uint16_t>();
    probe.path_mtu = in.number<std::uint16_t>();
    probe.segment = in.number<std::uint16_t>();
    const auto text = in.number<std::uint8_t>();
    if (text >= texts.size()) return std::nullopt;
    probe.text = texts[text];
    probes.push_back(std::move(probe));
  }
  if (!in.complete()) return std::nullopt;
  return probes;
}

}  // namespace fabring::tools

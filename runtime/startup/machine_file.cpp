#include "runtime/startup/machine_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "collectives/json_text.hpp"
#include "runtime/base/nearest_name.hpp"
#include "runtime/base/whole_file.hpp"

namespace fabring {
namespace {

using Json = nlohmann::ordered_json;  // for writing; its objects take a linear search for every new key
using Parsed = nlohmann::json;
constexpr std::size_t most_bytes = 1 << 20;

Status wrong(std::string text) { return {ErrorCode::invalid_argument, std::move(text)}; }

/// Never half of a character: the JSON of that would be none.
std::string beginning_of(const std::string& utf8) {
  std::size_t length = std::min<std::size_t>(utf8.size(), 64);
  while (length < utf8.size() && length > 0 && (static_cast<unsigned char>(utf8[length]) & 0xc0) == 0x80) --length;
  return utf8.substr(0, length);
}

/// What a terminal would obey and no XML may have: control characters, U+FFFE and U+FFFF.
bool has_unprintable(std::string_view utf8) {
  for (std::size_t i = 0; i < utf8.size(); ++i) {
    const auto byte = static_cast<unsigned char>(utf8[i]);
    const std::string_view rest = utf8.substr(i);
    if (byte < ' ' || byte == 0x7f || (rest.starts_with('\xc2') && static_cast<unsigned char>(rest[1]) < 0xa0) ||
        rest.starts_with("\xef\xbf\xbe") || rest.starts_with("\xef\xbf\xbf"))
      return true;
  }
  return false;
}

/// Calls visit(name, field) for every number of the machine; the one list of them.
template <class Tier, class Visit>
void each_field_of_tier(Tier& tier, Visit visit) {
  visit("latency_ns", tier.latency_ns);
  visit("send_ns", tier.send_ns);
  visit("receive_ns", tier.receive_ns);
  visit("grant_ns", tier.grant_ns);
  visit("copy_bytes_per_second", tier.copy_bytes_per_second);
  visit("place_bytes_per_second", tier.place_bytes_per_second);
  visit("lane_bytes_per_second", tier.lane_bytes_per_second);
  visit("launch_ns", tier.launch_ns);
}
template <class Machine, class Visit>
void each_field(Machine& machine, Visit visit) {
  visit("nics", machine.nics);
  visit("nic_bytes_per_second", machine.nic_bytes_per_second);
  visit("memory_bytes_per_second", machine.memory_bytes_per_second);
  visit("reduce_bytes_per_second", machine.reduce_bytes_per_second);
  visit("cache_bytes", machine.cache_bytes);
  visit("cold_percent", machine.cold_percent);
  visit("shared_core_percent", machine.shared_core_percent);
  visit("passed_on_percent", machine.passed_on_percent);
  visit("cores", machine.cores);
  visit("switch_ns", machine.switch_ns);
  visit("call_ns", machine.call_ns);
  visit("nodes_per_leaf", machine.nodes_per_leaf);
  visit("oversubscription_percent", machine.oversubscription_percent);
  visit("segment_bytes", machine.tiling.segment_bytes);
  visit("smallest_bytes", machine.tiling.smallest_bytes);
  visit("depth", machine.tiling.depth);
  visit("eager_bytes", machine.tiling.eager_bytes);
  visit("landing_bytes", machine.tiling.landing_bytes);
  visit("landing_depth", machine.tiling.landing_depth);
  visit("landing_vector_bytes", machine.tiling.landing_vector_bytes);
  visit("eager_in_tiles_bytes", machine.tiling.eager_in_tiles_bytes);
  visit("moved_segment_bytes", machine.tiling.moved_segment_bytes);
  visit("pair_moved_bytes", machine.tiling.pair_moved_bytes);
  visit("readable_bytes", machine.tiling.readable_bytes);
  visit("reduced_together_bytes", machine.tiling.reduced_together_bytes);
  visit("exchanged_whole_bytes", machine.tiling.exchanged_whole_bytes);
  visit("long_segment_bytes", machine.tiling.long_segment_bytes);
  visit("long_depth", machine.tiling.long_depth);
  for (std::size_t i = 0; i < calibrated_sizes.size(); ++i)
    visit(calibration_field(i), machine.of_allreduce.percent[i]);
}

/// Reads the members of `from` that are fields; any other member is an error unless it is one of `others`.
template <class Fields>
Status read_fields(const Parsed& from, const std::string& object, const Fields& fields,
                   std::vector<std::string_view> others) {
  if (!from.is_object()) return wrong(object + " must be an object");
  const std::string where = object.empty() ? "" : object + ".";
  std::vector<std::string_view> known = std::move(others);
  Status status;
  fields([&](std::string_view name, auto& field) {
    known.push_back(name);
    const auto found = from.find(std::string(name));
    if (found == from.end() || !status.ok()) return;
    if (!found->is_number_integer() ||
        (found->is_number_unsigned() ? false : found->template get<std::int64_t>() < 0)) {
      // dump() goes as deep as lists are nested, which may be deeper than the stack.
      status = wrong(fmt::format("{}{} must be a whole number, not {}", where, name,
                                 found->is_structured() ? found->type_name() : found->dump()));
      return;
    }
    const auto value = found->template get<std::uint64_t>();
    field = static_cast<std::remove_reference_t<decltype(field)>>(value);
    if (static_cast<std::uint64_t>(field) != value) status = wrong(fmt::format("{}{} is too large", where, name));
  });
  FABRING_TRY(status);
  for (const auto& [name, value] : from.items()) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      return wrong(
          fmt::format("{}{} is not a field of a machine{}", where, quoted_field(name), did_you_mean(name, known)));
  }
  return {};
}

}  // namespace

Result<Machine> machine_from_json(const std::string& text) {
  FABRING_TRY(check_json(text));
  const Parsed json = Parsed::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return wrong("a machine is a JSON object");
  Machine machine;
  if (const auto base = json.find("base"); base != json.end()) {
    const auto found = base->is_string() ? find_machine(base->get<std::string>()) : std::nullopt;
    if (!found) return wrong(fmt::format("base must be one of {}", fmt::join(machine_names(), ", ")));
    machine = *found;
  }
  machine.name = "unnamed";
  if (const auto name = json.find("name"); name != json.end()) {
    const auto* given = name->get_ptr<const std::string*>();
    if (given == nullptr) return wrong("name must be a text");
    if (has_unprintable(*given)) return wrong("name has a character that cannot be printed");
    machine.name = beginning_of(*given);
  }
  Status status =
      read_fields(json, "", [&](auto visit) { each_field(machine, visit); }, {"base", "name", "inside", "between"});
  for (auto [name, tier] : {std::pair{"inside", &machine.inside}, {"between", &machine.between}}) {
    const auto found = json.find(name);
    if (found == json.end() || !status.ok()) continue;
    Tier& fields = *tier;  // clang 14 captures no structured binding
    status = read_fields(*found, name, [&](auto visit) { each_field_of_tier(fields, visit); }, {});
  }
  if (!status) return status;
  if (Status sound = check_machine(machine); !sound) return sound;
  if (machine.oversubscription_percent < 100)
    return wrong(
        fmt::format("oversubscription_percent {} would do nothing: a leaf's nodes never send faster than their cards, "
                    "which is 100; leave it out, or give more than 100",
                    machine.oversubscription_percent));
  if (machine.inside == Tier{} || machine.between == Tier{})
    return wrong(
        fmt::format("what it leaves out would cost nothing: add \"base\" (one of {}) or numbers to \"inside\" and "
                    "\"between\"",
                    fmt::join(machine_names(), ", ")));
  return machine;
}

std::string machine_to_json(const Machine& machine) {
  Json json;
  json["name"] = machine.name;
  for (const auto& [name, tier] : {std::pair{"inside", &machine.inside}, {"between", &machine.between}}) {
    Json& object = json[name];
    each_field_of_tier(*tier, [&](const char* field, const auto& value) { object[field] = value; });
  }
  each_field(machine, [&](std::string_view field, const auto& value) { json[std::string(field)] = value; });
  return json.dump(2) + "\n";
}

Result<Machine> read_machine(const std::string& name_or_path, const std::string& what) {
  if (auto known = find_machine(name_or_path)) return *known;
  const auto text = read_whole_file(name_or_path, most_bytes);
  const bool is_path = name_or_path.find('/') != std::string::npos;
  if (!text && text.error().code() == ErrorCode::unavailable && !is_path)
    return wrong(fmt::format("{} '{}' is neither a file that can be read nor one of {}{}", what, name_or_path,
                             fmt::join(machine_names(), ", "), did_you_mean(name_or_path, machine_names())));
  if (!text) return wrong(fmt::format("{} {}: {}", what, name_or_path, text.error().message()));
  auto machine = machine_from_json(*text);
  if (!machine) return machine.error().with_prefix(what + " " + name_or_path + ": ");
  return machine;
}

}  // namespace fabring

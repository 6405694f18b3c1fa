#include "tools/fabring/simulate/measured_times.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "collectives/json_text.hpp"

namespace fabring::tools {
namespace {

using MeasuredJson = nlohmann::json;  // ordered_json takes a linear search for every new key

Status unmeasured(std::string why) { return {ErrorCode::invalid_argument, std::move(why)}; }

// Names of algorithms come from files of plans too.
std::string printed(const std::string& name) { return is_word(name) ? name : "?"; }

// One entry; the first field that is wrong is remembered.
class Entry {
 public:
  Entry(const MeasuredJson& json, std::size_t number) : json_(json), number_(number) {}
  const Status& status() const { return status_; }
  void fail(const std::string& what) {
    if (status_.ok()) status_ = unmeasured(fmt::format("entry {} {}", number_, what));
  }
  /// Null: there is no such field.
  const MeasuredJson* find(const char* field) const {
    const auto at = json_.is_object() ? json_.find(field) : json_.end();
    return at == json_.end() || at->is_null() ? nullptr : &*at;
  }
  std::uint64_t whole_number(const char* field) {
    const MeasuredJson* value = needed(field);
    if (value != nullptr && !value->is_number_unsigned()) fail(fmt::format("has a {} that is no whole number", field));
    return status_.ok() ? value->get<std::uint64_t>() : 0;
  }
  double number(const char* field) {
    const MeasuredJson* value = needed(field);
    if (value != nullptr && !value->is_number()) fail(fmt::format("has a {} that is no number", field));
    return status_.ok() ? value->get<double>() : 0;
  }
  std::string word(const char* field) {
    const MeasuredJson* value = needed(field);
    if (value != nullptr && !value->is_string()) fail(fmt::format("has a {} that is no word", field));
    return status_.ok() ? value->get<std::string>() : std::string();
  }
  /// Empty: there is no such field. Of 1 to `most`.
  std::vector<int> whole_numbers_if_any(const char* field, std::uint64_t most) {
    std::vector<int> numbers;
    const MeasuredJson* list = find(field);
    if (list == nullptr) return numbers;
    const auto sound = [&](const MeasuredJson& each) {
      return each.is_number_unsigned() && each.get<std::uint64_t>() >= 1 && each.get<std::uint64_t>() <= most;
    };
    if (!list->is_array() || !std::ranges::all_of(*list, sound)) {
      fail(fmt::format("has a {} that is no list of whole numbers from 1 to {}", field, most));
      return numbers;
    }
    for (const MeasuredJson& each : *list) numbers.push_back(each.get<int>());
    return numbers;
  }
  /// Empty: there is no such field.
  std::string word_if_any(const char* field) { return find(field) == nullptr ? std::string() : word(field); }

 private:
  const MeasuredJson* needed(const char* field) {
    const MeasuredJson* value = find(field);
    if (value == nullptr) fail(fmt::format("lacks {}", field));
    return value;
  }
  const MeasuredJson& json_;
  const std::size_t number_;
  Status status_;
};

std::uint64_t sum_of(const std::vector<int>& ranks) {
  return std::accumulate(ranks.begin(), ranks.end(), std::uint64_t{0});
}

Result<MeasuredTime> time_of(Entry& entry) {
  MeasuredTime one;
  one.bytes = entry.whole_number("bytes");
  one.ranks = entry.whole_number("ranks");
  const std::string algorithm = entry.word("algorithm");
  one.time_us = entry.number("time_us");
  const std::string memory = entry.word_if_any("memory"), wire_type = entry.word_if_any("wire_type");
  if (entry.find("nodes") != nullptr) one.nodes = entry.whole_number("nodes");
  one.ranks_of_nodes = entry.whole_numbers_if_any("ranks_of_nodes", most_measured_ranks);
  if (!entry.status().ok()) return entry.status();
  if (one.ranks < 1 || one.ranks > most_measured_ranks)
    return unmeasured(fmt::format("{} ranks; 1 to {} can be compared", one.ranks, most_measured_ranks));
  if (one.nodes > one.ranks) entry.fail(fmt::format("has {} nodes of {} ranks", one.nodes, one.ranks));
  if (!one.ranks_of_nodes.empty() &&
      (one.ranks_of_nodes.size() != one.nodes || sum_of(one.ranks_of_nodes) != one.ranks))
    entry.fail(fmt::format("has {} nodes of {} ranks, but its ranks_of_nodes are {} of {}", one.nodes, one.ranks,
                           one.ranks_of_nodes.size(), sum_of(one.ranks_of_nodes)));
  if (!(one.time_us > 0)) entry.fail(fmt::format("has a time_us of {:g}: no time that was measured", one.time_us));
  if (!entry.status().ok()) return entry.status();
  if (one.bytes > most_measured_bytes || one.time_us > longest_measured_us)
    return unmeasured(fmt::format("{} bytes in {} us: nobody measured that", one.bytes, one.time_us));
  one.algorithm_name = printed(algorithm);
  one.algorithm = parse_algorithm(algorithm);
  one.mapped = memory == "mapped";
  if (wire_type != entry.word_if_any("dtype")) one.wire_type = printed(wire_type);
  return one;
}

}  // namespace

Result<std::vector<MeasuredTime>> measured_times(std::string_view json) {
  constexpr const char* what = "not what fabring perf --format json writes";
  if (const Status sound = check_json(json); !sound.ok()) return sound.with_prefix(fmt::format("{}: ", what));
  const auto rows = MeasuredJson::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!rows.is_array()) return unmeasured(what);
  std::vector<MeasuredTime> times;
  for (std::size_t at = 0; at < rows.size(); ++at) {
    Entry entry(rows[at], at + 1);
    if (const MeasuredJson* model = entry.find("model"); model != nullptr && model->is_string())
      return unmeasured("steps of a model, not single calls: measure sizes instead");
    auto one = time_of(entry);
    if (!one) return one.error();
    const MeasuredJson* name = entry.find("collective");
    const auto collective =
        name != nullptr && name->is_string() ? parse_collective(name->get<std::string>()) : std::nullopt;
    if (!collective) continue;
    one->collective = *collective;
    if (one->algorithm && !has_algorithm(*collective, *one->algorithm)) one->algorithm.reset();
    times.push_back(std::move(*one));
  }
  return times;
}

}  // namespace fabring::tools

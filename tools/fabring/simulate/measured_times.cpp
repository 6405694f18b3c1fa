#include "tools/fabring/simulate/measured_times.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace fabring::tools {
namespace {

using MeasuredJson = nlohmann::json;  // ordered_json takes a linear search for every new key

Status unmeasured(std::string why) { return {ErrorCode::invalid_argument, std::move(why)}; }

}  // namespace

Result<std::vector<MeasuredTime>> measured_times(std::string_view json) {
  const auto rows = MeasuredJson::parse(json, nullptr, /*allow_exceptions=*/false);
  const bool ends_early = json.find('\0') != json.npos;  // the parser would stop there
  if (!rows.is_array() || ends_early) return unmeasured("not what fabring perf --format json writes");
  std::vector<MeasuredTime> times;
  for (const MeasuredJson& row : rows) {
    const auto field = [&](const char* name) {
      const auto at = row.is_object() ? row.find(name) : row.end();
      return at == row.end() ? MeasuredJson() : *at;
    };
    if (field("model").is_string()) return unmeasured("steps of a model, not single calls: measure sizes instead");
    const MeasuredJson bytes = field("bytes"), ranks = field("ranks"), time = field("time_us");
    const MeasuredJson collective_name = field("collective"), algorithm_name = field("algorithm");
    if (!bytes.is_number_unsigned() || !time.is_number() || !ranks.is_number_unsigned() || !algorithm_name.is_string())
      return unmeasured("an entry lacks bytes, ranks, algorithm or time_us");
    MeasuredTime one;
    one.bytes = bytes.get<std::uint64_t>();
    one.ranks = ranks.get<std::uint64_t>();
    one.time_us = time.get<double>();
    if (one.ranks < 1 || one.ranks > most_measured_ranks)
      return unmeasured(fmt::format("{} ranks; 1 to {} can be compared", one.ranks, most_measured_ranks));
    if (one.bytes > most_measured_bytes || one.time_us > longest_measured_us)
      return unmeasured(fmt::format("{} bytes in {} us: nobody measured that", one.bytes, one.time_us));
    if (!collective_name.is_string() || !(one.time_us > 0)) continue;
    const auto collective = parse_collective(collective_name.get<std::string>());
    const auto algorithm = parse_algorithm(algorithm_name.get<std::string>());
    if (!collective || !algorithm || !has_algorithm(*collective, *algorithm)) continue;
    one.collective = *collective;
    one.algorithm = *algorithm;
    times.push_back(one);
  }
  return times;
}

}  // namespace fabring::tools

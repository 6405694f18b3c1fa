#include "tools/fabring/launch/job_record.hpp"

#include <nlohmann/json.hpp>

#include "tools/fabring/command.hpp"

namespace fabring::tools {

std::string job_json(const JobRecord& record, const std::vector<HostShare>& hosts, const Result<int>& code,
                     double seconds) {
  using nlohmann::ordered_json;
  ordered_json places = ordered_json::array(), ranks = places, first;
  const auto number_or_null = [](bool known, int number) { return known ? ordered_json(number) : ordered_json(); };
  for (const HostShare& host : hosts) {
    places.push_back({{"host", host.name}, {"first_rank", host.first}, {"ranks", host.count}});
    for (int rank = host.first; rank < host.first + host.count; ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      const std::optional<RecordedEnd> end = at < record.ends.size() ? record.ends[at] : std::nullopt;
      const RecordedEnd known = end.value_or(RecordedEnd());
      ranks.push_back({{"rank", rank},
                       {"host", host.name},
                       {"pid", number_or_null(end.has_value(), static_cast<int>(known.pid))},
                       {"exit_code", number_or_null(end.has_value(), known.code)},
                       {"signal", number_or_null(known.signal != 0, known.signal)}});
    }
  }
  if (record.first)
    first = {{"rank", number_or_null(record.first->rank >= 0, record.first->rank)}, {"what", record.first->what}};
  const ordered_json all{{"schema", 1},
                         {"job", record.job_id},
                         {"exit_code", code ? *code : static_cast<int>(exit_could_not_run)},
                         {"error", code ? record.error : code.error().message()},
                         {"seconds", seconds},
                         {"attempts", record.attempts},
                         {"first_failure", first},
                         {"hosts", places},
                         {"ranks", ranks}};
  return all.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace fabring::tools

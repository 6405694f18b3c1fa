#include "tools/fabring/launch/place_note.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <vector>

#include "tools/fabring/launch/rank_group.hpp"

namespace fabring::tools {

std::string place_note(const Environment& environment) {
  std::vector<std::string_view> passed_over;
  for (const std::string_view name :
       {"FABRING_RANK", "FABRING_LOCAL_RANK", "FABRING_WORLD_SIZE", "FABRING_MASTER_ADDR", "FABRING_MASTER_PORT"})
    if (environment.contains(std::string(name))) passed_over.push_back(name);
  if (passed_over.empty()) return {};
  return fmt::format("note: {} of the environment {} not passed on: every rank gets this job's own",
                     fmt::join(passed_over, ", "), passed_over.size() == 1 ? "is" : "are");
}

std::string warning_of_jobs_in_a_job(const Environment& environment) {
  const auto place = environment.find(std::string(mark_of_place));  // "0/2"
  if (place == environment.end() || !place->second.starts_with("0/") || place->second == "0/1") return {};
  return fmt::format(
      "this is a rank of a job of {}, and with -n each of them starts a job of its own, all at once: leave out -n, and "
      "they are the ranks",
      place->second.substr(2));
}

}  // namespace fabring::tools

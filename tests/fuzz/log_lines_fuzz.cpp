// `fabring doctor explain`: a code, a line, a whole log.

#include <sstream>

#include "tests/fuzz/round_trip.hpp"
#include "tools/fabring/doctor/explanations.hpp"

namespace fabring::fuzz::log_lines {

void run(std::string_view input) {
  (void)tools::explain_code(input);
  (void)tools::errno_text(input);
  if (input.size() < 64) (void)tools::nearest_code(input);
  const auto of_line = tools::explain_text(input);
  std::istringstream log{std::string(input)};
  const auto hits = tools::explain_log(log);
  for (const tools::LogHit& hit : hits) {
    require(hit.explanation != nullptr && hit.times > 0 && hit.line > 0, "a hit is somewhere");
    require(hit.text.size() <= 200 && fit_to_be_shown(hit.text), "its line is fit to be shown");
  }
  if (input.size() <= 4096 && input.find_first_of("\n\r") == std::string_view::npos && !input.empty())
    require(hits.size() == of_line.size(), "a line is a log of one line");
}

Seeds seeds() {
  Seeds all{"4126", "-61", "FI_ENODATA", "Connection refused\nrank 3: NCCL WARN\n", "peer_lost: rank 2 (host vm) died"};
  for (const tools::Explanation& entry : tools::explanations()) all.emplace_back(entry.phrases.substr(0, 80));
  return all;
}

}  // namespace fabring::fuzz::log_lines

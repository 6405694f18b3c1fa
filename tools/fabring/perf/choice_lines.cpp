#include "tools/fabring/perf/choice_lines.hpp"

#include <fmt/format.h>

#include "tools/fabring/command.hpp"

namespace fabring::tools {

void tell_choice(std::string_view what, const Choice& choice, bool with_candidates) {
  complain("perf", fmt::format("{}: {}: {}", what, choice.algorithm, choice.reason));
  if (!with_candidates) return;
  for (const Choice::Candidate& one : choice.candidates)
    complain("perf", one.excluded.empty()
                         ? fmt::format("  {:<20} {:>12.2f} us predicted", one.algorithm, one.predicted_us)
                         : fmt::format("  {:<20} left out: {}", one.algorithm, one.excluded));
}

std::optional<double> predicted_us(const Choice& choice) {
  for (const Choice::Candidate& one : choice.candidates)
    if (one.algorithm == choice.algorithm && one.excluded.empty() && one.predicted_us > 0) return one.predicted_us;
  return std::nullopt;
}

}  // namespace fabring::tools

#include "tools/fabring/simulate/prices.hpp"

#include <fmt/format.h>

#include "runtime/base/parse_value.hpp"
#include "tools/fabring/simulate/simulate_report.hpp"

namespace fabring::tools {

std::string prices_text(Collective collective, std::uint64_t bytes, const WorldShape& shape, const Machine& machine) {
  std::string text;
  const auto all = candidates(collective, ChoiceTable::priced_as(bytes), shape, machine);
  if (!all.empty() && all.front().predicted.value_or(0) >= longest_time)
    text = fmt::format("{} of {}: all that can do it take too long for their prices to be compared\n", name(collective),
                       size_text(bytes));
  else if (!all.empty() && all.front().excluded.empty())
    text = reason_text({all.front().algorithm, ChoiceReason::fastest}, collective, bytes, shape) + "\n";
  for (const Candidate& each : all) {
    text += fmt::format("  {:<20} {:>12}", name(each.algorithm), each.predicted ? time_text(*each.predicted) : "-");
    text += each.excluded.empty() ? "\n" : fmt::format("  left out: {}\n", each.excluded);
  }
  return text;
}

}  // namespace fabring::tools

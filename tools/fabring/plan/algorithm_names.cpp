#include "tools/fabring/plan/algorithm_names.hpp"

#include <fmt/format.h>

#include <vector>

#include "collectives/algorithms.hpp"
#include "runtime/base/nearest_name.hpp"
#include "tools/fabring/command.hpp"

namespace fabring::tools {

Status no_such_algorithm(std::string_view given, Collective collective) {
  std::vector<std::string_view> known{"auto"};
  for (const Algorithm each : all_algorithms())
    if (has_algorithm(collective, each)) known.push_back(name(each));
  return wrong_argument(fmt::format("--algorithm '{}' is not one that {} has: {}{}", given, name(collective),
                                    fmt::join(known, ", "), did_you_mean(given, known)));
}

}  // namespace fabring::tools

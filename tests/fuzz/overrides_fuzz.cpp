// FABRING_ALGORITHM.

#include "collectives/choice/overrides.hpp"

#include "tests/fuzz/targets.hpp"
#include "tests/support/override_text.hpp"

namespace fabring::fuzz::overrides {

void run(std::string_view input) {
  const auto rules = parse_overrides(input);
  if (!rules) return require(rules.error().code() == ErrorCode::invalid_argument, "what is refused says why");
  require(rules->size() <= most_overrides, "rules are bounded");
  const auto again = parse_overrides(fixture::to_text(*rules));
  require(again && *again == *rules, "rules stay what they are");
}

Seeds seeds() {
  Seeds all{"auto",     "direct", "allreduce:64K-4M:circulant,broadcast:chain", "-4M:ring", "64K-:hierarchical",
            "4096:auto"};
  for (const Algorithm each : all_algorithms()) all.emplace_back(name(each));
  return all;
}

}  // namespace fabring::fuzz::overrides

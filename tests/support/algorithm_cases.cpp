#include "tests/support/algorithm_cases.hpp"

namespace fabring::fixture {

std::vector<AlgorithmCase> algorithm_cases() {
  std::vector<AlgorithmCase> cases;
  for (int i = 0; i < collective_count; ++i)
    for (const Algorithm algorithm : algorithms_of(static_cast<Collective>(i)))
      cases.push_back({static_cast<Collective>(i), algorithm});
  return cases;
}

bool is_possible(const AlgorithmCase& by, const Request& what, int ranks) {
  if (!what.counts.empty() && needs_equal_blocks(what.collective, by.algorithm)) return false;
  return make_plan(
             {by.algorithm, 0, std::vector<int>(static_cast<std::size_t>(ranks)), what.op, what.collective, what.root})
      .has_value();
}

}  // namespace fabring::fixture

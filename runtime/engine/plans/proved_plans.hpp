#pragma once
// ProvedPlans: plans of all ranks as they come in a text, read and proved at every count of elements: what may be run.

#include <string_view>
#include <vector>

#include "collectives/plan.hpp"
#include "collectives/prove.hpp"
#include "fabring/status.hpp"

namespace fabring {

struct ProvedPlans {
  std::vector<Plan> plans;  ///< by rank
  Proof proof;
};

/// Are they for avg? Only its plans have `finish`.
bool are_of_average(const std::vector<Plan>& plans);

/// Errors: invalid_argument as plans_from_json(), and with the step where the proof breaks; unsupported if they
/// are too much to prove, or not proved at every count, as they must be to be run.
Result<ProvedPlans> prove_plan_text(std::string_view text);

}  // namespace fabring

#pragma once
// Is a supposed symmetry one? The plans of the unit are compared with those of other units.

#include <cstdint>

#include "collectives/algorithms.hpp"
#include "simulation/schedule.hpp"

namespace fabring::simulation {

/// `schedule` has its symmetry and the plans of its unit. Of a unit that is compared, every rank's plan is: a tree may
/// differ from a symmetry in the first rank of a node only. All units are compared while their ranks' plans have no
/// more than `most_compared` steps and nodes to look at (each rank's plan looks at all ranks' nodes); of a larger
/// world the last, some at powers of two, and some spread between. That is enough for the algorithms there are:
/// * A symmetry moves every rank, so what has a root has none, wherever the root is.
/// * Where one rank heads a tree, a star or an order though the collective has no root, it is rank 0. It is in the
///   unit, so any comparison tells.
/// * All others treat all ranks alike but for those below a bound (who fold where n is no power of two) or above one
///   (whose parts go past the end): of the first unit and the last one only one is among them.
bool same_plans(const Schedule& schedule, PlanRequest request, std::uint64_t most_compared);

}  // namespace fabring::simulation

#pragma once
// FilePlans: the plans of a file, for those who run them: read, and proved at every count of elements.

#include <string>
#include <vector>

#include "collectives/prove.hpp"
#include "fabring/types.hpp"

namespace fabring::tools {

struct FilePlans {
  std::string text;  ///< of the file
  std::vector<Plan> plans;
  Proof proof;

  Collective collective() const { return plans[0].collective; }
  int ranks() const { return static_cast<int>(plans.size()); }
  /// Are they for avg? Only its plans have `finish`.
  bool average() const;
};

/// Errors, without the path: as read_whole_file() and plans_from_json(); mismatch with the step where the proof breaks;
/// unsupported if they are not proved at every count, as they must be to be run.
Result<FilePlans> load_proved_plans(const std::string& path);

/// Is that what they do? Errors: invalid_argument, with the option to give.
Status check_use(const FilePlans& plans, Collective collective, Rank root, ReduceOp op);

}  // namespace fabring::tools

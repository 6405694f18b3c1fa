#pragma once
// Gathering: what all ranks tell all others at a step of start-up. An error of one rank is everybody's error.

#include <string>
#include <vector>

#include "fabring/status.hpp"
#include "runtime/startup/identity.hpp"

namespace fabring {

class ControlPlane;

class Gathering {
 public:
  explicit Gathering(ControlPlane& control) : control_(control) {}

  /// Every rank's text, by rank. Errors: this rank's own; another's, naming it.
  Result<std::vector<std::string>> operator()(const Result<std::string>& own);

 private:
  ControlPlane& control_;
};

/// Every rank's identity.
Result<std::vector<Identity>> gather_identities(Gathering& gather, const Result<std::string>& own);

}  // namespace fabring

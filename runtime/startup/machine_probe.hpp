#pragma once
// probe_machine(): before the first operation of a job, some collectives of several sizes and algorithms are timed on
// all its ranks; rank 0 fits the machine to what it saw, and every rank takes that one. Between hosts the links are
// measured first (link_probe.hpp), unless cards have said what they carry.

#include <string>

#include "collectives/cost/fit.hpp"
#include "fabring/status.hpp"

namespace fabring {

class EngineCore;

/// What short messages cost is always measured, in a twentieth of a second.
struct ProbeScope {
  bool links = false;  ///< also what the links between nodes carry: a tenth of a second
  bool whole = false;  ///< FABRING_MACHINE=probe: also what long operations take: some 0.4 s, on busy hosts up to 1.2 s
  friend bool operator==(const ProbeScope&, const ProbeScope&) = default;
};

struct ProbeOutcome {
  std::string line;     ///< for the report
  std::string warning;  ///< for rank 0's log; empty: what was asked for was found
};

/// All ranks alike, before anybody else uses the engine. Errors: those of a collective; mismatch (rank 0 sent what is
/// not a machine).
Result<ProbeOutcome> probe_machine(EngineCore& core, ProbeScope scope);

/// Of prices that are far from what was measured for them: more than half by over 20 %, or one five times; else empty.
std::string warning_of(const Accuracy& accuracy);

}  // namespace fabring

#pragma once
// probe_machine(): before the first operation of a job, some collectives of several sizes and algorithms are timed on
// all its ranks; rank 0 fits the machine to what it saw, and every rank takes that one. Between hosts the links are
// measured first (link_probe.hpp).

#include <string>

#include "fabring/status.hpp"

namespace fabring {

class EngineCore;

enum class ProbeDepth {
  links,  ///< and what short messages cost: several hosts whose machine nobody named; a tenth of a second
  whole   ///< FABRING_MACHINE=probe; a quarter of a second, and the links
};

/// All ranks alike, before anybody else uses the engine. Returns a line for the report. Errors: those of a collective;
/// mismatch (rank 0 sent what is not a machine).
Result<std::string> probe_machine(EngineCore& core, ProbeDepth depth);

}  // namespace fabring

#pragma once
// probe_machine(): FABRING_MACHINE=probe. Before the first operation of a job, some allreduces and broadcasts of
// several sizes and algorithms are timed on all its ranks, for about a quarter of a second; rank 0 fits the machine to
// what it saw, and every rank takes that one.

#include <string>

#include "fabring/status.hpp"

namespace fabring {

class EngineCore;

/// All ranks alike, before anybody else uses the engine. Returns a line for the report. Errors: those of a collective;
/// mismatch (rank 0 sent what is not a machine).
Result<std::string> probe_machine(EngineCore& core);

}  // namespace fabring

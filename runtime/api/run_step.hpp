#pragma once
// What communicators are made by: collectives of ours on another one, which are no calls of the program.

#include <memory>

#include "fabring/operation.hpp"
#include "fabring/status.hpp"
#include "runtime/engine/call/call.hpp"
#include "runtime/engine/members/communicator_core.hpp"

namespace fabring {

/// As Communicator::run(). The error says that `of` failed, which is what the program called.
Status run_step(const std::shared_ptr<CommunicatorCore>& core, const Operation& operation, StepOf of);

}  // namespace fabring

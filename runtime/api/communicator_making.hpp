#pragma once
// Making a communicator as a part of another call, which all members are within together.

#include <memory>
#include <string>

#include "fabring/communicator.hpp"
#include "runtime/engine/call/call.hpp"
#include "runtime/engine/members/communicator_core.hpp"

namespace fabring {

/// As Communicator::duplicate(), of a call that the program made by another name.
Result<Communicator> duplicate_within(const std::shared_ptr<CommunicatorCore>& core, StepOf of, std::string label);

}  // namespace fabring

#pragma once
// Stay: why a process stays in the job of an engine. Its process groups hold it until they are shut down, and so does
// what they have begun, until that is over: others take part in it. Receives do not: when all groups are gone nobody
// would know that something must be sent for them. When the last holder lets go the engine leaves: messages that are on
// their way to a receive arrive, and what is under way there then ends.

#include <memory>

#include "process.hpp"

namespace fabring_torch {

class SharedEngine;

class Stay {
 public:
  explicit Stay(std::shared_ptr<SharedEngine> engine);
  ~Stay();
  Stay(const Stay&) = delete;
  Stay& operator=(const Stay&) = delete;

 private:
  const Origin origin_;
  const std::shared_ptr<SharedEngine> engine_;
};

}  // namespace fabring_torch

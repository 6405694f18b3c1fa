#pragma once
// What a handle says that outlived what it stands for.

#include "fabring/status.hpp"

namespace fabring {

inline const Status gone(ErrorCode::aborted, "the engine of this communicator is gone, or the communicator is empty");

}  // namespace fabring

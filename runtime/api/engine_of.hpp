#pragma once
// The engine that a handle's call goes to, and what the call says where there is none: the handle outlived it, or this
// process is a child of fork() and has no more than copies of what its parent made.

#include <memory>

#include "fabring/status.hpp"
#include "runtime/engine/members/communicator_core.hpp"

namespace fabring {

inline const Status gone(ErrorCode::aborted, "the engine of this communicator is gone, or the communicator is empty");

/// Was it made before this process was forked off? Its threads are the parent's then, and its locks may be held for
/// ever. `core` may be null.
inline bool is_parents(const std::shared_ptr<CommunicatorCore>& core) { return core && !core->origin.is_here(); }

/// For a call on this communicator; null where there is none for it. `core` may be null.
inline std::shared_ptr<EngineCore> engine_of(const std::shared_ptr<CommunicatorCore>& core) {
  return core && core->origin.is_here() ? core->engine.lock() : nullptr;
}
/// Why there is none.
Status no_engine(const std::shared_ptr<CommunicatorCore>& core);

/// In a child of fork(): never lets go of it, since that would wait for threads that only the parent has.
void keep_for_ever(std::shared_ptr<EngineCore> engine);

}  // namespace fabring

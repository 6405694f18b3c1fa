#pragma once
// LockRight: does the limit on locked memory hold this process? The kernel lets a process pass it that has the
// capability IPC_LOCK, if it has it in the first user namespace: one that was gained inside another one counts for
// nothing there.

#include "topology/host_files.hpp"

namespace fabring::tools {

enum class LockRight : unsigned char {
  unknown,     ///< the kernel does not say
  none,        ///< no IPC_LOCK: the limit holds
  namespaced,  ///< IPC_LOCK in a user namespace of its own: the limit holds
  whole        ///< IPC_LOCK: the limit does not hold
};

/// By /proc/self/status and /proc/self/uid_map.
LockRight lock_right(const HostFiles& files);

}  // namespace fabring::tools

#pragma once

namespace fabring {

/// Leaves the core to its other thread for a moment.
inline void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace fabring

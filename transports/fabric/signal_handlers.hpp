#pragma once
// Debian's libfabric loads libinfinipath (for its psm provider), whose constructor installs handlers for SIGSEGV, SIGABRT
// and others that print a backtrace, write a file and exit with code 1. A library must not decide that for the program.

namespace fabring {

/// Puts the default action back for fatal signals whose handler lies in libinfinipath; handlers of the program are left
/// alone. Cheap; call before using libfabric.
void drop_foreign_signal_handlers();

}  // namespace fabring

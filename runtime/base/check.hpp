#pragma once
// FABRING_CHECK: a broken invariant of our own. Prints what and where and aborts, in release builds too. Never for
// anything a user, a peer or the environment can cause.

namespace fabring {
[[noreturn]] void check_failed(const char* condition, const char* file, int line);
}
#define FABRING_CHECK(condition) \
  (static_cast<bool>(condition) ? void() : ::fabring::check_failed(#condition, __FILE__, __LINE__))

#include "runtime/base/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace fabring {
void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "fabring: bug: '%s' does not hold (%s:%d); please report this\n", condition, file, line);
  std::abort();
}
}  // namespace fabring

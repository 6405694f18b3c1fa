#pragma once
// A process whose soft limit on open files is reached while the hard one is far away, and one at its hard limit.

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace fabring::tests {

/// The soft limit leaves this process no file that is not open yet; the hard one does.
class NoMoreFilesForNow {
 public:
  NoMoreFilesForNow() {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    again();
  }
  ~NoMoreFilesForNow() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoMoreFilesForNow(const NoMoreFilesForNow&) = delete;
  NoMoreFilesForNow& operator=(const NoMoreFilesForNow&) = delete;

  /// Somebody may have raised it.
  void again() const {
    const rlimit none{3, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  }

 private:
  rlimit before_{};
};

/// For good: who lowers the hard limit may not raise it again. Only in a child.
inline void no_more_files(rlim_t files = 3) {
  const rlimit none{files, files};
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
}

}  // namespace fabring::tests

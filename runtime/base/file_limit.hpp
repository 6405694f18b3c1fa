#pragma once
// FileClaim: how many files an endpoint may come to have open, so that the process is allowed to. The soft limit of
// many systems is 1024, which a rank of a large job exceeds by its sockets alone; the hard one is far above.

#include <cerrno>
#include <cstddef>

#include "fabring/status.hpp"

namespace fabring {

/// What a claim of this process may count on beside it: the program's own files, libraries, the control plane.
inline constexpr std::size_t files_besides = 256;

/// For who was told EMFILE, and tries again then: the soft limit becomes the hard one. What a claim leaves for the rest
/// of the process is a guess, and a program may have thousands of files. No error where the two are equal: the second
/// try has it.
void raise_file_limit();

/// What `open` answers, a descriptor or -1 with errno; EMFILE: the hard limit is reached, not just the soft one.
template <class Open>
int open_within_hard_limit(Open open) {
  const int fd = open();
  if (fd >= 0 || errno != EMFILE) return fd;
  raise_file_limit();
  return open();
}

class FileClaim {
 public:
  FileClaim() = default;
  ~FileClaim();
  FileClaim(const FileClaim&) = delete;
  FileClaim& operator=(const FileClaim&) = delete;

  /// `more` files may be open some day. Raises the soft limit of the process where all claims of it, and what is
  /// besides, do not fit, at most to the hard one, and never lowers it: children inherit it. Error: unavailable, with
  /// both numbers, if the hard limit is below the claims alone.
  Status grow(std::size_t more);

 private:
  std::size_t claimed_ = 0;
};

}  // namespace fabring

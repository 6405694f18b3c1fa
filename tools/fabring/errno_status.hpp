#pragma once
// because_of_errno(): what a call to the system left in errno, as a Status.

#include <cerrno>
#include <cstring>
#include <string>

#include "fabring/status.hpp"

namespace fabring::tools {

/// "Too many open files; raise the limit on open files (ulimit -n)".
inline std::string words_of_errno(int error) {
  return std::strerror(error) + std::string(error == EMFILE ? "; raise the limit on open files (ulimit -n)" : "");
}

/// unavailable: "cannot make a pipe: Too many open files; raise the limit on open files (ulimit -n)".
inline Status because_of_errno(const std::string& what) {
  return {ErrorCode::unavailable, what + ": " + words_of_errno(errno)};
}

}  // namespace fabring::tools

#pragma once
// because_of_errno(): what a call to the system left in errno, as a Status.

#include <cerrno>
#include <cstring>
#include <string>

#include "fabring/status.hpp"

namespace fabring::tools {

/// unavailable: "cannot make a pipe: Too many open files".
inline Status because_of_errno(const std::string& what) {
  return {ErrorCode::unavailable, what + ": " + std::strerror(errno)};
}

}  // namespace fabring::tools

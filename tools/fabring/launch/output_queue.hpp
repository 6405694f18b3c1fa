#pragma once
// OutputQueue: bytes on their way to a descriptor whose reader may be slow (a terminal under ^S, a network). It never
// blocks and leaves the descriptor's flags alone: they belong to whoever shares it.

#include <cstddef>
#include <string>
#include <string_view>

#include "runtime/base/descriptor.hpp"

namespace fabring::tools {

class OutputQueue {
 public:
  explicit OutputQueue(int fd) : fd_(fd) {}
  void add(std::string_view bytes) { bytes_ += bytes; }
  /// Writes what can be written now. False, with errno, when nobody reads any more or it is full; what is queued is
  /// then dropped.
  bool flush();
  std::size_t size() const { return bytes_.size() - written_; }
  bool empty() const { return size() == 0; }
  int fd() const { return fd_; }
  /// For poll(): -1 when there is nothing to write.
  int waiting_fd() const { return empty() ? -1 : fd_; }

 private:
  int fd_;
  std::string bytes_;
  std::size_t written_ = 0;
};

/// Another way to the terminal that `fd` is, which does not block: poll() calls a terminal writable that has room for
/// less than a line, and writing to it then waits for whoever reads it. None where `fd` is no terminal, or one that may
/// not be opened again (another user's).
Descriptor own_way_to_terminal(int fd);

}  // namespace fabring::tools

#include "tools/fabring/doctor/process_read.hpp"

#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace fabring::tools {

std::optional<int> try_process_read() {
  char byte = 1;
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return std::nullopt;
  if (child == 0) {
    char seen = 0;
    const iovec here{&seen, 1}, there{&byte, 1};
    ::_exit(::process_vm_readv(parent, &here, 1, &there, 1, 0) == 1 ? 0 : errno);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return std::nullopt;
  if (!WIFEXITED(status)) return std::nullopt;
  return WEXITSTATUS(status);
}

}  // namespace fabring::tools

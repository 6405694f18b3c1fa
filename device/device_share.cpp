#include "device/device_share.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

namespace fabring {
namespace {

// Field 22 of /proc/self/stat, counted behind the name, which may have anything in it.
std::uint64_t start_of_self() {
  std::FILE* const file = std::fopen("/proc/self/stat", "re");
  if (file == nullptr) return 0;
  char text[1024] = "";
  const std::size_t bytes = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  text[bytes] = 0;
  const char* at = std::strrchr(text, ')');
  unsigned long long started = 0;
  if (at == nullptr ||
      std::sscanf(at + 1, " %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
                  &started) != 1)
    return 0;
  return started;
}

}  // namespace

ProcessName ProcessName::self() {
  ProcessName name;
  struct stat facts {};
  if (::stat("/proc/self/ns/pid", &facts) == 0) name.pid_namespace = facts.st_ino;
  name.pid = static_cast<std::uint64_t>(::getpid());
  name.started = start_of_self();
  return name;
}

}  // namespace fabring

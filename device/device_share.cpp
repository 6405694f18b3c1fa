#include "device/device_share.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

namespace fabring {
namespace {

// Field 22 of /proc/PID/stat, counted behind the name, which may have anything in it; 0: there is none.
std::uint64_t start_of(const std::string& process) {
  std::FILE* const file = std::fopen(("/proc/" + process + "/stat").c_str(), "re");
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

std::uint64_t pieces_of(const DeviceShare::Facts& facts) {
  return std::min<std::uint64_t>(facts.pieces, DeviceShare::most_pieces);
}

// Of two piecewise mappings of one process: where both have something, is it the same?
bool agree(const DeviceShare::Facts& one, const DeviceShare::Facts& other) {
  std::uint64_t at = one.base, there = other.base;
  for (std::uint64_t i = 0, j = 0; i < pieces_of(one) && j < pieces_of(other);) {
    const std::uint64_t end = at + one.piece_bytes[i], end_there = there + other.piece_bytes[j];
    const bool both = at < end_there && there < end;
    if (both && (at != there || end != end_there || one.piece_numbers[i] != other.piece_numbers[j] ||
                 one.piece_numbers[i] == 0))
      return false;
    if (end <= end_there) {
      at = end;
      ++i;
    }
    if (end_there <= end) {
      there = end_there;
      ++j;
    }
  }
  return true;
}

}  // namespace

// Asked for each message: files of /proc are read once by each thread, and anew by the child of a fork.
ProcessName ProcessName::self() {
  thread_local ProcessName name;
  if (name.pid == static_cast<std::uint64_t>(::getpid())) return name;
  struct stat facts {};
  if (::stat("/proc/self/ns/pid", &facts) == 0) name.pid_namespace = facts.st_ino;
  name.pid = static_cast<std::uint64_t>(::getpid());
  name.started = start_of("self");
  return name;
}

bool ProcessName::has_ended() const {
  return pid_namespace == self().pid_namespace && start_of(std::to_string(pid)) != started;
}

bool same_memory(const DeviceShare::Facts& one, const DeviceShare::Facts& other) {
  if (one.process != other.process || one.gpu != other.gpu || one.base != other.base || one.bytes != other.bytes ||
      one.pieces != other.pieces)
    return false;
  return one.pieces == 0 ? one.allocation != 0 && one.allocation == other.allocation : agree(one, other);
}

bool contradict(const DeviceShare::Facts& one, const DeviceShare::Facts& other) {
  if (one.process != other.process || one.base >= other.base + other.bytes || other.base >= one.base + one.bytes)
    return false;
  return !same_memory(one, other) && (one.pieces == 0 || other.pieces == 0 || !agree(one, other));
}

}  // namespace fabring

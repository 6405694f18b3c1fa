#pragma once
// ProcessReader: reads memory that a peer shares with nobody, with the kernel's help (process_vm_readv). Whether the
// kernel lets one process read another depends on who runs them, in which container and by which rules (Yama, seccomp),
// so it is tried, never assumed; the peer is told (Channel::reads_unshared).

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "transports/shm/layout.hpp"

namespace fabring::shm {

/// Of shorter messages two copies cost less than the kernel's call, and to wait until the bytes are back.
inline constexpr std::size_t least_unshared = 32 * 1024;

class ProcessReader {
 public:
  /// Of a peer that cannot be read.
  explicit ProcessReader(Channel& channel);
  /// Of the peer at the other end of `lifeline` that has this mark, where it says so.
  ProcessReader(Channel& channel, int lifeline, const ProcessMark& mark);

  /// False: they cannot be read, now and ever; some of them may be there nevertheless.
  bool read(std::byte* to, std::uint64_t from, std::size_t bytes);

 private:
  bool read_there(std::byte* to, std::uint64_t from, std::size_t bytes) const;
  void tell();

  Channel* channel_;
  ProcessMark mark_;
  pid_t process_ = 0;  // 0: nobody who can be read
};

}  // namespace fabring::shm

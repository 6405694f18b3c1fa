#pragma once
// Intake: how this rank brings what a peer has sent to where it belongs: by a copy of its own, or, from memory that the
// peer shares with nobody, with the kernel's help (process_vm_readv). How long each takes is told to the peer, which
// chooses (UnsharedChoice). Whether the kernel lets one process read another depends on who runs them, in which
// container and by which rules (Yama, seccomp), so it is tried, never assumed.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "transports/shm/layout.hpp"
#include "transports/shm/pace.hpp"

namespace fabring::shm {

class Intake {
 public:
  /// Of what comes by this channel from nobody who can be read.
  explicit Intake(Channel& channel);
  /// From a peer at the other end of `lifeline` that has this mark, where it says so.
  Intake(Channel& channel, int lifeline, const ProcessMark& mark);

  /// `cold`: past the caches where the processor can.
  void copy(std::byte* to, const std::byte* from, std::size_t bytes, bool cold = false);
  /// False: they cannot be read, now and ever; some of them may be there nevertheless.
  bool read(std::byte* to, std::uint64_t from, std::size_t bytes);

 private:
  bool read_there(std::byte* to, std::uint64_t from, std::size_t bytes) const;
  void publish();

  Channel* channel_;
  ProcessMark mark_;
  pid_t process_ = 0;  // 0: nobody who can be read
  Pace reads_;
  Pace copies_;
};

}  // namespace fabring::shm

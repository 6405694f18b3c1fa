#pragma once
// HostBeacon: a socket by whose random name another rank can tell whether it shares this one's host. Abstract unix
// sockets are a network namespace's own, in the kernel that has it: no other can have this one, however alike the two
// are. Virtual machines that go on from one image of memory have one boot id, and one number for the namespace.

#include <string>

#include "fabring/types.hpp"
#include "runtime/base/descriptor.hpp"

namespace fabring {

class HostBeacon {
 public:
  /// It is there until its end. Where no such socket is to be had its name is empty.
  explicit HostBeacon(Rank self);
  const std::string& name() const { return name_; }

 private:
  Descriptor socket_;
  std::string name_;
};

/// True where nobody here has a beacon of that name, so that its rank is on another host; false also where that cannot
/// be found out (a sandbox).
bool is_beacon_elsewhere(const std::string& name);

}  // namespace fabring

#pragma once
// SeenProcesses: which processes of the machine can be seen from here, by the numbers they have for themselves. A
// process in a container of its own (a PID namespace) has another number there than on the host.

#include <optional>
#include <set>

#include "tools/fabring/doctor/host_files.hpp"

namespace fabring::tools {

class SeenProcesses {
 public:
  explicit SeenProcesses(const HostFiles& files) : files_(files) {}

  /// Does a process call itself so? Nothing: it may be one that cannot be seen (this is a container, or /proc hides the
  /// processes of other users).
  std::optional<bool> has(long long pid);

 private:
  struct All {
    bool complete = false;
    std::set<long long> own_numbers;
  };
  All look() const;

  const HostFiles& files_;
  std::optional<All> all_;  // looked at when first needed
};

}  // namespace fabring::tools

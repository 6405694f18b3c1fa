#pragma once
// Lifeline: a small process beside the launcher that outlives it by a moment. When the launcher dies without a word
// (kill -9), it kills the process groups that were entrusted to it: PR_SET_PDEATHSIG reaches the ranks themselves, but
// not what they started.

#include <sys/types.h>

#include "fabring/status.hpp"

namespace fabring::tools {

class Lifeline {
 public:
  /// Forks; call before any thread exists. Errors: unavailable.
  static Result<Lifeline> start();
  Lifeline(Lifeline&& other) noexcept;
  Lifeline& operator=(Lifeline&&) = delete;
  Lifeline(const Lifeline&) = delete;
  ~Lifeline();  // an orderly end: nothing is killed

  pid_t keeper() const { return keeper_; }
  void entrust(pid_t group);
  void release(pid_t group);

 private:
  Lifeline() = default;
  void tell(pid_t value);
  pid_t keeper_ = -1;
  int socket_ = -1;
};

}  // namespace fabring::tools

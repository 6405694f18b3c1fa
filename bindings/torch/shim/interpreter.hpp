#pragma once
// The lock of Python's interpreter, which whoever waits must not keep: what it waits for may need Python in this
// process, and every other thread of the program stands still meanwhile.

namespace fabring_torch {

/// While one lives the calling thread does without the lock, if it has it. Torch's bindings of Work::wait() give it up
/// themselves; those of synchronize() and is_completed() call with it.
class WithoutInterpreter {
 public:
  WithoutInterpreter();
  ~WithoutInterpreter();
  WithoutInterpreter(const WithoutInterpreter&) = delete;
  WithoutInterpreter& operator=(const WithoutInterpreter&) = delete;

 private:
  void* saved_ = nullptr;  // PyThreadState*
};

}  // namespace fabring_torch

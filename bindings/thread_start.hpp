#pragma once
// A thread of a binding's own, as start_thread() makes those of the engine, which bindings do not see: named for ps and
// gdb, and with every signal blocked, so that the program's handlers keep running in the program's own threads.

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include <exception>
#include <string>
#include <thread>
#include <utility>

namespace fabring::bindings {

/// A stack that finds no addresses, or is too much private memory, is refused with the same EAGAIN as a process too
/// many.
inline std::string raise_limits() {
  std::string text = "raise the limit on processes (ulimit -u, pids.max)";
  const auto or_on = [&text](auto resource, const char* what) {
    rlimit limit{};
    if (::getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
      text += std::string(" or on ") + what + ", which is " + std::to_string(limit.rlim_cur / 1024) + ")";
  };
  or_on(RLIMIT_AS, "addresses (ulimit -v");
  or_on(RLIMIT_DATA, "memory of its own (ulimit -d");
  return text;
}

/// Runs `body` in a thread that nobody joins. `name`: at most 15 characters (the kernel's limit). Answers why there is
/// none, for people; empty: it runs. Throws nothing, and leaves the caller's signals as they were.
template <class Body>
[[nodiscard]] std::string start_detached(const char* name, Body body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::string failure;
  try {
    std::thread thread(std::move(body));
    pthread_setname_np(thread.native_handle(), name);
    thread.detach();
  } catch (const std::exception& error) {  // system_error: no more threads; bad_alloc
    failure = std::string("cannot start thread '") + name + "': " + error.what() + "; " + raise_limits();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return failure;
}

}  // namespace fabring::bindings

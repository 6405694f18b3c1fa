#include "runtime/base/named_thread.hpp"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>

#include <exception>

namespace fabring {
namespace {

// A stack that finds no addresses, or is too much private memory, is refused with the same EAGAIN as a process too
// many.
std::string raise_limits() {
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

}  // namespace

Result<std::thread> start_thread(const std::string& name, std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread;
  std::string failure;
  try {
    thread = std::thread(std::move(body));
  } catch (const std::exception& error) {  // system_error; bad_alloc
    failure = error.what();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!failure.empty())
    return Status(ErrorCode::unavailable, "cannot start thread '" + name + "': " + failure + "; " + raise_limits());
  pthread_setname_np(thread.native_handle(), name.substr(0, 15).c_str());
  return thread;
}

void bind_thread(std::thread& thread, const std::vector<int>& cpus) {
  if (cpus.empty() || cpus.back() >= CPU_SETSIZE) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(cpu, &set);
  (void)::pthread_setaffinity_np(thread.native_handle(), sizeof set, &set);
}

}  // namespace fabring

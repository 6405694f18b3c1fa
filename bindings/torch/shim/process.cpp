#include "process.hpp"

#include <c10/util/Exception.h>
#include <pthread.h>

namespace fabring_torch {
namespace {

std::atomic<int> groups_now{0};
std::atomic<bool> groups_before_fork{false};

const bool watching_forks = [] {
  pthread_atfork(nullptr, nullptr, [] {
    if (groups_now.exchange(0) > 0) groups_before_fork = true;
  });
  return true;
}();

[[noreturn]] void refuse() {
  throw c10::Error({"fabring", __FILE__, 0},
                   "fabring: this process is a child of fork(), and the connections of this process group are its "
                   "parent's; a child may call init_process_group itself if its parent has no process group, or is "
                   "started by spawn or forkserver");
}

}  // namespace

void Origin::check() const {
  if (!is_here()) refuse();
}

OpenGroup::OpenGroup() { ++groups_now; }

OpenGroup::~OpenGroup() {
  if (origin_.is_here()) --groups_now;
}

void OpenGroup::check_none_before_fork() {
  if (groups_before_fork) refuse();
}

}  // namespace fabring_torch

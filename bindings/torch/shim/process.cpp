#include "process.hpp"

#include <c10/util/Exception.h>
#include <pthread.h>

namespace fabring_torch {
namespace {

std::atomic<std::uint32_t> forks_so_far{0};
std::atomic<int> groups_now{0};
std::atomic<bool> groups_before_fork{false};

const bool watching_forks = [] {
  pthread_atfork(nullptr, nullptr, [] {
    ++forks_so_far;
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

std::uint32_t forks() { return forks_so_far.load(std::memory_order_relaxed); }

void Origin::check() const {
  if (!is_this_process()) refuse();
}

OpenGroup::OpenGroup() { ++groups_now; }

OpenGroup::~OpenGroup() {
  if (origin_.is_this_process()) --groups_now;
}

void OpenGroup::check_none_before_fork() {
  if (groups_before_fork) refuse();
}

}  // namespace fabring_torch

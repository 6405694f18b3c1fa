#include "tools/fabring/doctor/process_read.hpp"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>

namespace fabring::tools {
namespace {

// As the seccomp profile of a container would.
bool forbid_process_reads() {
  std::array<sock_filter, 4> filter{{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                                     BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
                                     BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
                                     BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)}};
  const sock_fprog program{filter.size(), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

TEST(ProcessRead, SaysWhyTheKernelRefuses) {
  constexpr int no_filter = 200, untried = 201;
  const pid_t child = ::fork();
  if (child == 0) ::_exit(forbid_process_reads() ? try_process_read().value_or(untried) : no_filter);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == no_filter) GTEST_SKIP() << "no seccomp filter can be set here";
  EXPECT_EQ(WEXITSTATUS(status), ENOSYS);
}

// Others of this user's processes may be no better off, but none worse.
TEST(ProcessRead, IsTriedHere) {
  const auto error = try_process_read();
  ASSERT_TRUE(error);
  EXPECT_TRUE(*error == 0 || *error == EPERM || *error == ENOSYS) << *error;
}

}  // namespace
}  // namespace fabring::tools

// What a small blocking operation through shared memory does beside its work: nothing. It is run by its caller, makes
// no memory and, where it waits for nothing, no call of the kernel; but for a look at what else there is, now and then
// (FlatCalls), which keeps what it finds and asks the kernel who is still there.

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "tests/support/few_addresses.hpp"
#include "tests/support/thread_world.hpp"

namespace {
thread_local std::uint64_t allocations = 0;  // of this thread
}  // namespace

// The others of the library come here.
void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  ++allocations;
  const auto to = static_cast<std::size_t>(alignment);
  if (void* memory = std::aligned_alloc(to, (bytes + to - 1) / to * to)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace fabring::fixture {
namespace {

/// How many of so many calls of one engine may look.
constexpr std::uint64_t looks_in(std::uint64_t calls) { return calls / 128 + 1; }

constexpr int times = 2000;

/// Two ranks in one thread: each finds there what it would wait for. A reduction to rank 0 and a broadcast of the sum
/// are what an allreduce does.
class Pair {
 public:
  bool sums(int count) {
    for (int i = 0; i < count; ++i) {
      float own = 1, other = 2, sum = 0;
      if (!run(second_, Operation::reduce(&other, &other, 1, DataType::float32, ReduceOp::sum, 0)) ||
          !run(first_, Operation::reduce(&own, &sum, 1, DataType::float32, ReduceOp::sum, 0)) ||
          !run(first_, Operation::broadcast(&sum, &sum, 1, DataType::float32, 0)) ||
          !run(second_, Operation::broadcast(&other, &other, 1, DataType::float32, 0)) || other != 3)
        return false;
    }
    return true;
  }
  std::uint64_t ran_at_once() { return world_.engine(0).ran_at_once() + world_.engine(1).ran_at_once(); }
  /// Calls in which memory was made.
  std::uint64_t made_memory() const { return made_memory_; }

 private:
  bool run(Communicator& rank, const Operation& operation) {
    const std::uint64_t before = allocations;
    const bool ok = rank.run(operation).ok();
    if (allocations != before) ++made_memory_;
    return ok;
  }

  ThreadWorld world_{2, {}, ThreadWorld::Over::shm};
  Communicator first_ = world_.world(0), second_ = world_.world(1);
  std::uint64_t made_memory_ = 0;
};

TEST(SmallCalls, that_find_what_they_wait_for_make_no_memory_and_are_not_handed_over) {
  Pair pair;
  ASSERT_TRUE(pair.sums(10));
  const std::uint64_t at_once = pair.ran_at_once(), made = pair.made_memory();
  ASSERT_GT(made, 0u) << "allocations are not counted";
  ASSERT_TRUE(pair.sums(times));
  EXPECT_LE(pair.made_memory() - made, 2 * looks_in(2 * times)) << "of " << 4 * times << " calls";
  EXPECT_EQ(pair.ran_at_once() - at_once, 4u * times) << "some were handed over";
}

// Who has waited for too long hands its operation over; that makes memory, for the next one too.
TEST(SmallCalls, that_wait_and_are_not_handed_over_make_no_memory) {
  ThreadWorld world(2, {}, ThreadWorld::Over::shm);
  std::vector<std::uint64_t> counted(2), made(2);
  world.run([&](Rank rank, Communicator all) {
    const auto own = static_cast<std::size_t>(rank);
    float value = 1;
    bool before_too = false;
    for (int i = 0; i < times; ++i) {
      const std::uint64_t ran = world.engine(rank).ran_at_once(), had = allocations;
      ASSERT_TRUE(all.allreduce(&value, &value, 1, DataType::float32, ReduceOp::max).ok());
      const bool at_once = world.engine(rank).ran_at_once() > ran;
      if (std::exchange(before_too, at_once) && at_once) {
        ++counted[own];
        if (allocations != had) ++made[own];
      }
    }
  });
  for (const std::size_t rank : {0, 1}) {
    EXPECT_GT(counted[rank], 0u);
    EXPECT_LE(made[rank], looks_in(times)) << "of " << counted[rank] << " calls of rank " << rank;
  }
}

// ---- calls of the kernel

#if defined(__x86_64__)
constexpr int epoll_wait_number = SYS_epoll_wait;
void set_result(ucontext_t& context, long result) { context.uc_mcontext.gregs[REG_RAX] = result; }
#elif defined(__aarch64__)
constexpr int epoll_wait_number = SYS_epoll_pwait;
void set_result(ucontext_t& context, long result) { context.uc_mcontext.regs[0] = static_cast<unsigned long>(result); }
#endif

/// What a child asked of the kernel that it should not have, and how often it looked.
struct Calls {
  int refused = 0;
  std::uint64_t looks = 0;
};
Calls* calls = nullptr;  // shared with the child, which writes it

enum Child { fine = 0, called_the_kernel = 1, wrong_sum = 2, no_filter = 3 };

/// A look finds nothing; whatever else it is ends the child.
void on_refusal(int, siginfo_t* info, void* context) {
  if (info->si_syscall != SYS_epoll_pwait && info->si_syscall != epoll_wait_number) {
    calls->refused = info->si_syscall;
    ::_exit(called_the_kernel);
  }
  ++calls->looks;
  set_result(*static_cast<ucontext_t*>(context), 0);
}

/// From here on this thread may end the process and ask for the time, which is a call of the kernel only where the
/// clock cannot be read without; all else is a SIGSYS.
bool refuse_calls_of_the_kernel() {
  struct sigaction action {};
  action.sa_sigaction = on_refusal;
  action.sa_flags = SA_SIGINFO;
  sock_filter program[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                           BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 3, 0),
                           BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 2, 0),
                           BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 1, 0),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  sock_fprog filter{static_cast<unsigned short>(std::size(program)), program};
  return ::sigaction(SIGSYS, &action, nullptr) == 0 && ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

/// How a child ends that may call the kernel no more once it has warmed up.
template <class WarmUp, class Steady>
int end_of_child(WarmUp warm_up, Steady steady) {
  const pid_t child = ::fork();
  if (child == 0) {
    auto warm = warm_up();
    if (!refuse_calls_of_the_kernel()) ::_exit(no_filter);
    ::_exit(steady(warm) ? fine : wrong_sum);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  return WEXITSTATUS(status);
}

TEST(SmallCalls, that_find_what_they_wait_for_do_not_call_the_kernel) {
  if (tests::needs_addresses_of_its_own) GTEST_SKIP() << "a sanitizer calls the kernel itself";
  void* page = ::mmap(nullptr, sizeof(Calls), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  calls = new (page) Calls;
  const int caught = end_of_child([] { return 0; }, [](int) { return ::syscall(SYS_getppid) >= 0; });
  if (caught == no_filter) GTEST_SKIP() << "seccomp is not permitted here: calls of the kernel cannot be counted";
  ASSERT_EQ(caught, called_the_kernel) << "a call of the kernel has to be noticed";
  ASSERT_EQ(calls->refused, SYS_getppid);
  *calls = {};
  const auto warm_up = [] {
    auto pair = std::make_unique<Pair>();
    EXPECT_TRUE(pair->sums(10));
    return pair;
  };
  const int end = end_of_child(warm_up, [](std::unique_ptr<Pair>& pair) { return pair->sums(times); });
  EXPECT_EQ(end, fine) << "system call " << calls->refused;
  EXPECT_LE(calls->looks, 2 * looks_in(2 * times)) << "in " << 4 * times << " calls";
  ::munmap(page, sizeof(Calls));
}

}  // namespace
}  // namespace fabring::fixture

#include "tools/fabring/launch/child_process.hpp"
#include "tools/fabring/errno_status.hpp"
#include "tools/fabring/launch/open_files.hpp"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace fabring::tools {
namespace {

struct Pipe {
  int read = -1, write = -1;
  bool open() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return false;
    read = ends[0];
    write = ends[1];
    return true;
  }
  void close_write() {
    if (write >= 0) ::close(write);
    write = -1;
  }
  int release_read() { return std::exchange(read, -1); }
  ~Pipe() {
    if (read >= 0) ::close(read);
    close_write();
  }
};

// What the child does between fork and exec; only calls that are safe there. Returns only if something failed.
void become(const ChildStart& start, char** argv, char** envp, const std::string& path, pid_t launcher, int out,
            int err, const std::optional<rlimit>& open_files) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != launcher) ::_exit(128 + SIGKILL);  // the launcher died before prctl
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  // Ignored where a shell started this in the background, which is no reason for ranks to ignore what they are sent.
  // What nohup ignores they ignore too.
  ::signal(SIGINT, SIG_DFL);
  ::signal(SIGQUIT, SIG_DFL);
  if (!start.cpus.empty()) {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    for (int cpu : start.cpus)
      if (cpu < CPU_SETSIZE) CPU_SET(cpu, &mask);
    ::sched_setaffinity(0, sizeof(mask), &mask);  // a hint; failing is no reason not to run
  }
  const int input = start.input >= 0 ? start.input : ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (input < 0 || (input != STDIN_FILENO && ::dup2(input, STDIN_FILENO) < 0)) return;
  if (::dup2(out, STDOUT_FILENO) < 0 || ::dup2(err, STDERR_FILENO) < 0) return;
  if (open_files) ::setrlimit(RLIMIT_NOFILE, &*open_files);  // last: what the launcher has open counts until exec
  ::execve(path.c_str(), argv, envp);
}

// The program as execvp would find it; looked up before the fork, so that the error can say what is wrong.
Result<std::string> find_program(const std::string& name, const Environment& environment) {
  const auto refused = [&](const std::string& why) {
    return Status(ErrorCode::unavailable, "cannot run '" + name + "': " + why);
  };
  if (name.empty()) return refused("the name is empty");
  if (name.find('/') != std::string::npos) {
    if (::access(name.c_str(), X_OK) != 0) return refused(std::strerror(errno));
    return name;
  }
  const auto path = environment.find("PATH");
  std::string_view folders =
      path == environment.end() ? std::string_view("/usr/local/bin:/usr/bin:/bin") : std::string_view(path->second);
  while (true) {
    const std::size_t colon = folders.find(':');
    std::string candidate(folders.substr(0, colon));
    candidate += (candidate.empty() ? "./" : "/") + name;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    if (colon == std::string_view::npos) break;
    folders.remove_prefix(colon + 1);
  }
  const bool here = ::access(name.c_str(), X_OK) == 0;
  return refused(here ? "not found in PATH; did you mean './" + name + "'?" : "not found in PATH");
}

}  // namespace

std::string Ending::to_string() const {
  if (signal != 0) return "was killed by signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")";
  return "exited with status " + std::to_string(exit_status);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      output_(std::exchange(other.output_, -1)),
      errors_(std::exchange(other.errors_, -1)),
      end_(std::move(other.end_)),
      ending_(other.ending_) {}

ChildProcess::~ChildProcess() {
  finish();
  close_output();
  close_errors();
}

Result<ChildProcess> ChildProcess::start(const ChildStart& start) {
  auto program = find_program(start.command.empty() ? std::string() : start.command.front(), start.environment);
  if (!program) return program.error();
  std::vector<char*> argv;
  for (const std::string& word : start.command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  std::vector<std::string> pairs;
  for (const auto& [name, value] : start.environment) pairs.push_back(name + "=" + value);
  std::vector<char*> envp;
  envp.reserve(pairs.size() + 1);
  for (const std::string& pair : pairs) envp.push_back(const_cast<char*>(pair.c_str()));
  envp.push_back(nullptr);

  Pipe out, err, report;  // report carries errno when exec fails; closed by a good exec
  if (!out.open() || !err.open() || !report.open()) return because_of_errno("cannot make a pipe");
  const pid_t launcher = ::getpid();
  const std::optional<rlimit> open_files = open_files_of_children();
  const pid_t pid = ::fork();
  if (pid < 0) return because_of_errno("cannot start a process");
  if (pid == 0) {
    become(start, argv.data(), envp.data(), *program, launcher, out.write, err.write, open_files);
    const int error = errno;
    [[maybe_unused]] const auto written = ::write(report.write, &error, sizeof(error));
    ::_exit(127);
  }
  ::setpgid(pid, pid);  // both sides do it, so that it is done for whoever looks first
  ChildProcess process;
  process.pid_ = pid;
#ifdef SYS_pidfd_open
  process.end_ = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));  // closed by exec
#endif
  process.output_ = out.release_read();
  process.errors_ = err.release_read();
  report.close_write();
  int error = 0;
  ssize_t got;
  do got = ::read(report.read, &error, sizeof(error));
  while (got < 0 && errno == EINTR);
  if (got == static_cast<ssize_t>(sizeof(error))) {
    // The program itself was found before.
    const std::string missing =
        error == ENOENT ? ": what its first line names as interpreter is not there (or its loader)" : "";
    return Status(ErrorCode::unavailable, "cannot run '" + *program + "': " + words_of_errno(error) + missing);
  }
  return process;
}

void ChildProcess::close_output() {
  if (output_ >= 0) ::close(output_);
  output_ = -1;
}

void ChildProcess::close_errors() {
  if (errors_ >= 0) ::close(errors_);
  errors_ = -1;
}

std::optional<Ending> ChildProcess::ending() {
  if (ending_ || pid_ < 0) return ending_;
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != pid_)
    return {};
  Ending end;
  (info.si_code == CLD_EXITED ? end.exit_status : end.signal) = info.si_status;
  ending_ = end;
  return ending_;
}

void ChildProcess::signal(int number) const {
  if (pid_ > 0) ::kill(-pid_, number);
}

void ChildProcess::finish() {
  if (pid_ <= 0) return;
  signal(SIGKILL);
  siginfo_t info{};
  int result;
  do result = ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED);
  while (result != 0 && errno == EINTR);
  pid_ = -1;
}

}  // namespace fabring::tools

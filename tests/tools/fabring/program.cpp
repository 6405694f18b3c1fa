#include "tests/tools/fabring/program.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

namespace fabring::tests {
namespace {
using Clock = std::chrono::steady_clock;
constexpr auto patience = std::chrono::seconds(60);  // for a machine that is busy with other things

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

// As pipe2(): what is written to the second end is read from the first.
bool open_terminal(int (&ends)[2]) {
  ends[0] = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (ends[0] < 0 || ::grantpt(ends[0]) != 0 || ::unlockpt(ends[0]) != 0) return false;
  ends[1] = ::open(::ptsname(ends[0]), O_RDWR | O_NOCTTY | O_CLOEXEC);
  return ends[1] >= 0;
}
}  // namespace

Program::Program(const std::vector<std::string>& arguments, const std::map<std::string, std::string>& environment,
                 const std::string& input, Stdout stdout_is) {
  std::vector<std::string> words{FABRING_CLI};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::map<std::string, std::string> variables{{"PATH", std::getenv("PATH") ? std::getenv("PATH") : "/usr/bin:/bin"}};
  for (const char* kept : {"ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"})
    if (const char* value = std::getenv(kept)) variables[kept] = value;
  for (const auto& [name, value] : environment) variables[name] = value;
  std::vector<std::string> pairs;
  for (const auto& [name, value] : variables) pairs.push_back(name + "=" + value);
  std::vector<char*> argv, envp;
  for (std::string& word : words) argv.push_back(word.data());
  for (std::string& pair : pairs) envp.push_back(pair.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);

  int in[2], out[2], err[2];
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0) std::abort();
  if (!(stdout_is == Stdout::terminal ? open_terminal(out) : ::pipe2(out, O_CLOEXEC) == 0)) std::abort();
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
  if (::posix_spawn(&pid_, FABRING_CLI, &actions, nullptr, argv.data(), envp.data()) != 0) std::abort();
  ::posix_spawn_file_actions_destroy(&actions);
  [[maybe_unused]] const auto written = ::write(in[1], input.data(), input.size());
  for (int fd : {in[0], in[1], out[1], err[1]}) ::close(fd);
  out_ = out[0];
  err_ = err[0];
}

Program::~Program() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  for (int fd : {out_, err_, unread_out_, unread_err_})
    if (fd >= 0) ::close(fd);
}

void Program::signal(int number) const { ::kill(pid_, number); }

void Program::close_output() {
  if (out_ >= 0) ::close(out_);
  out_ = -1;
}

void Program::leave_output_unread() { unread_out_ = std::exchange(out_, -1); }
void Program::leave_errors_unread() { unread_err_ = std::exchange(err_, -1); }
void Program::read_output_again() { out_ = std::exchange(unread_out_, -1); }

// Reads what there is; false when both streams have ended or time is up.
bool Program::pump(Clock::time_point until) {
  pollfd polled[2] = {{out_, POLLIN, 0}, {err_, POLLIN, 0}};
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  if ((out_ < 0 && err_ < 0) || left <= 0 || ::poll(polled, 2, static_cast<int>(left)) <= 0) return false;
  for (int i = 0; i < 2; ++i) {
    if (polled[i].revents == 0) continue;
    char bytes[65536];
    const ssize_t got = ::read(polled[i].fd, bytes, sizeof(bytes));
    if (got > 0) {
      (i == 0 ? result_.out : result_.err).append(bytes, static_cast<std::size_t>(got));
    } else {
      int& fd = i == 0 ? out_ : err_;
      ::close(fd);
      fd = -1;
    }
  }
  return true;
}

bool Program::wait_for(const std::string& stream, const std::string& text, int times) {
  const auto until = Clock::now() + patience;
  while (count(stream, text) < times)
    if (!pump(until)) return false;
  return true;
}

bool Program::wait_for_output(const std::string& text, int times) { return wait_for(result_.out, text, times); }
bool Program::wait_for_errors(const std::string& text) { return wait_for(result_.err, text, 1); }

ProgramResult Program::wait() {
  const auto until = Clock::now() + patience;
  while (pump(until)) {
  }
  const bool over = out_ < 0 && err_ < 0 && is_gone_soon(pid_);
  if (!over) ::kill(pid_, SIGKILL);  // time is up
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  if (over) result_.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return result_;
}

ProgramResult run(const std::vector<std::string>& arguments, const std::map<std::string, std::string>& environment,
                  const std::string& input) {
  return Program(arguments, environment, input).wait();
}

bool is_gone_soon(pid_t pid) { return is_gone_within(pid, patience); }

bool is_gone_within(pid_t pid, std::chrono::milliseconds limit) {
  const auto until = Clock::now() + limit;
  while (Clock::now() < until) {
    if (::kill(pid, 0) != 0) return true;
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string stat;
    std::getline(file, stat);
    const std::size_t close = stat.rfind(')');
    if (close != std::string::npos && close + 2 < stat.size() && (stat[close + 2] == 'Z' || stat[close + 2] == 'X'))
      return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // between two looks
  }
  return false;
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> result;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) result.push_back(line);
  return result;
}

const char* const many_lines =
    "i=0; while [ $i -lt 500 ]; do echo line $i of rank $FABRING_RANK end; i=$((i+1)); done; printf last";

void expect_whole_lines(const ProgramResult& result, std::size_t ranks) {
  const auto all = lines(result.out);
  ASSERT_EQ(all.size(), 501 * ranks) << result.err;
  for (const std::string& line : all) {
    int tag = -1, number = -1, rank = -1, used = 0;
    if (line.ends_with("] last")) continue;
    ASSERT_EQ(std::sscanf(line.c_str(), "[%d] line %d of rank %d end%n", &tag, &number, &rank, &used), 3) << line;
    EXPECT_EQ(tag, rank);
    EXPECT_EQ(static_cast<std::size_t>(used), line.size()) << line;
  }
}

}  // namespace fabring::tests

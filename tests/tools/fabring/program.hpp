#pragma once
// Program: the built `fabring` as a process: its output, its signals, its end. Every wait has a deadline.

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace fabring::tests {

struct ProgramResult {
  int code = -1;  ///< exit status, or 128 + signal
  std::string out, err;
};

class Program {
 public:
  enum class Stdout { pipe, terminal };
  /// `environment` is added to a clean one (PATH, no FABRING_*, no launcher's variables). `input` becomes its stdin.
  Program(const std::vector<std::string>& arguments, const std::map<std::string, std::string>& environment = {},
          const std::string& input = {}, Stdout stdout_is = Stdout::pipe);
  ~Program();  // kills
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  void close_output();  ///< as `| head` does
  /// From now on nothing is read from stdout, or stderr, as by a pager nobody turns over; nor is it closed.
  void leave_output_unread();
  void leave_errors_unread();
  void read_output_again();
  /// Reads until `text` has appeared on stdout `times` times; false after the deadline.
  bool wait_for_output(const std::string& text, int times = 1);
  bool wait_for_errors(const std::string& text);
  /// To the end; a program that does not end is killed, with code -1.
  ProgramResult wait();
  const std::string& output() const { return result_.out; }

 private:
  bool pump(std::chrono::steady_clock::time_point until);
  bool wait_for(const std::string& stream, const std::string& text, int times);
  pid_t pid_ = -1;
  int out_ = -1, err_ = -1;
  int unread_out_ = -1, unread_err_ = -1;
  ProgramResult result_;
};

ProgramResult run(const std::vector<std::string>& arguments, const std::map<std::string, std::string>& environment = {},
                  const std::string& input = {});

/// True when the process is gone, or only its entry is left, within the deadline.
bool is_gone_soon(pid_t pid);
bool is_gone_within(pid_t pid, std::chrono::milliseconds limit);

std::vector<std::string> lines(const std::string& text);

/// For `sh -c`: what each rank prints to be looked at by expect_whole_lines().
extern const char* const many_lines;
/// With --tag-output no line of a rank is cut by another's, or lost.
void expect_whole_lines(const ProgramResult& result, std::size_t ranks);

}  // namespace fabring::tests

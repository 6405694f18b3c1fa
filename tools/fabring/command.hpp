#pragma once
// What the subcommands of `fabring` share: exit codes, and how a subcommand joins the command line. Each subcommand is
// one file that adds itself to the CLI::App and leaves its exit code in the Session.

#include <string>
#include <utility>
#include <vector>

#include "fabring/status.hpp"

namespace CLI {
class App;
}

namespace fabring::tools {

enum ExitCode : int {
  exit_fine = 0,
  exit_wrong = 1,  ///< a critical finding, or wrong results
  exit_usage = 2,
  exit_could_not_run = 3,
};

struct Session {
  std::vector<std::string> arguments;  ///< after the program's name and before "--"
  std::vector<std::string> command;    ///< after "--"
  bool strict = false;                 ///< a warning that was printed is a failure
  int exit_code = exit_fine;
};

void add_agent(CLI::App& app, Session& session);
void add_doctor(CLI::App& app, Session& session);
void add_run(CLI::App& app, Session& session);
void add_perf(CLI::App& app, Session& session);
void add_plan(CLI::App& app, Session& session);
void add_simulate(CLI::App& app, Session& session);
void add_settings(CLI::App& app, Session& session);
void add_status(CLI::App& app, Session& session);
void add_topo(CLI::App& app, Session& session);

/// The command line says something that cannot be.
inline Status wrong_argument(std::string text) { return {ErrorCode::invalid_argument, std::move(text)}; }

/// One line on stderr, "fabring SUBCOMMAND: text", in one write.
void complain(const std::string& subcommand, const std::string& text);

/// That line, and the exit code of what could not be done, or was asked for in a way that cannot be.
int could_not_run(const std::string& subcommand, const std::string& text);
int could_not_run(const std::string& subcommand, const Status& why);
int wrong_usage(const std::string& subcommand, const std::string& text);

/// "unknown option --fomat; did you mean '--format'?"
std::string unknown_option(const CLI::App& app, const std::string& argument);

}  // namespace fabring::tools

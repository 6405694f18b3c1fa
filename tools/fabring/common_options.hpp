#pragma once
// The options that every subcommand takes, so that a wrapper may pass them to any: --json, --explain, --output,
// --timeout and --strict. What the first three mean is the subcommand's; perf and doctor have --timeout and doctor
// --strict of their own kind under the same names.

#include <chrono>
#include <string>

namespace CLI {
class App;
}

namespace fabring::tools {

struct Session;

struct CommonOptions {
  bool json = false;
  bool explain = false;
  std::string output;
  double timeout_s = 0;  ///< 0: none was given
};

/// --timeout as a time.
std::chrono::milliseconds limit_of(const CommonOptions& options);

/// What --help says of them.
struct CommonHelp {
  std::string json, explain;
  std::string timeout = "How long it may take (30, 500ms, 2h); exit code 3 when it is not done by then";
  std::string output = "Write to a file";
};

/// Adds --json, --explain, --output and --timeout, whose default is what `options` has.
void add_common_options(CLI::App& command, CommonOptions& options, const CommonHelp& help);

/// Adds --strict to every subcommand that has none. apply_strict() turns exit code 0 into 1 if it was given and this
/// process has printed a warning, by warn() or in the log of an engine.
void add_strict(CLI::App& app, Session& session);
void apply_strict(Session& session);

/// One line on stderr, "fabring SUBCOMMAND: warning: text".
void warn(const std::string& subcommand, const std::string& text);

}  // namespace fabring::tools

#pragma once
// The options of horovodrun that `fabring run` takes besides its own, so that a command line only changes its first
// word: some mean a setting of ours, some mean nothing here and are noted, and what there is not is refused in words.

#include <string>
#include <vector>

#include "fabring/status.hpp"

namespace CLI {
class App;
}

namespace fabring::tools {

struct HorovodOptions {
  int ssh_port = 0;
  std::string identity_file;
  int start_timeout_s = 0;
  std::string interfaces;
  int fusion_threshold_mb = -1;
  int stall_warning_s = -1, stall_shutdown_s = -1;
  std::string timeline;
  bool timeline_rounds = false;
  std::string log_level;
  bool verbose = false;
  std::vector<std::string> ignored;  ///< as they were spelt
  std::vector<std::string> refused;  ///< with what there is instead
};

/// Adds them to the subcommand; `options` must outlive the parsing.
void add_horovod_options(CLI::App& command, HorovodOptions& options);

/// Variables for the ranks, NAME=VALUE. Errors: invalid_argument: an option that is refused, a bad value. Pure.
Result<std::vector<std::string>> horovod_environment(const HorovodOptions& options);

/// Words after those of `ssh`: the port and the key. Pure.
std::vector<std::string> horovod_ssh_words(const HorovodOptions& options);

/// "--gloo, --cycle-time-ms: no meaning here, ignored"; empty if there are none. Pure.
std::string horovod_note(const HorovodOptions& options);

}  // namespace fabring::tools

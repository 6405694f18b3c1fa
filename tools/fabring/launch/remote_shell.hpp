#pragma once
// How a program is started on another host: the words of the ssh command, and what its failures mean. Pure.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fabring/status.hpp"
#include "tools/fabring/launch/child_process.hpp"

namespace fabring::tools {

/// Never asks questions; notices by itself within 15 s that the host or the network is gone.
inline constexpr std::string_view default_ssh =
    "ssh -T -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 -o ServerAliveCountMax=3";

/// Cuts at blanks; '...' and "..." keep them, a backslash keeps the next character. Errors: a quote without its end,
/// or no word at all.
Result<std::vector<std::string>> split_words(std::string_view text);

/// A word as any login shell reads it back.
std::string shell_quoted(std::string_view word);

/// The whole command that starts the agent `fabring` on `host`.
std::vector<std::string> ssh_command(const std::vector<std::string>& ssh, const std::string& host,
                                     const std::string& fabring);

/// Whether `host` names the machine we are on, whose names and addresses `own_name` and `is_own_address` tell. A name
/// service is asked (`addresses_of`) only where the two names agree up to the first dot and not beyond: a list of a
/// thousand hosts would wait for it.
bool is_this_host(const std::string& host, std::string_view own_name, bool (*is_own_address)(const std::string&),
                  std::vector<std::string> (*addresses_of)(const std::string&));

/// What is known of an agent that never answered.
struct NoAnswer {
  std::string host;
  std::string program;           ///< "ssh", or whatever stands in for it
  std::string fabring;           ///< path of the agent
  std::optional<Ending> ending;  ///< of the ssh command; none: it still runs
  std::string errors;            ///< what it wrote to stderr
  std::string output;            ///< and to stdout
};

/// One sentence that names the host, what happened there and what to do.
std::string explain_no_answer(const NoAnswer& found);

}  // namespace fabring::tools

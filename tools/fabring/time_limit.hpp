#pragma once
// run_within(): --timeout of a subcommand that computes, or asks the system, and cannot be told to stop.

#include <functional>
#include <string>

namespace fabring::tools {

/// Runs `work` and returns its exit code. When it is not done after so many seconds (0: it may take for ever) the
/// process ends with exit code 3 and a line on stderr; of the files of an Output, those that were made and are not
/// finished are taken away.
int run_within(double seconds, const std::string& subcommand, const std::function<int()>& work);

}  // namespace fabring::tools

#pragma once
// What the words of a command line name, looked at before CLI11 reads them: it shows help for a command that there is
// not, and takes the next word for the value that an option lacks, whatever that is.

#include <cstddef>
#include <string>
#include <vector>

#include "fabring/status.hpp"

namespace CLI {
class App;
}

namespace fabring::tools {

struct NamedCommand {
  const CLI::App* command = nullptr;  ///< `app` itself where none is named
  std::string path;                   ///< " doctor net"
  std::size_t words = 0;              ///< how many of the words name it
};

/// The subcommand that the words begin with.
NamedCommand named_command(const CLI::App& app, const std::vector<std::string>& arguments);

/// Every option that takes a value must have one: a word that is not empty and, unless "=" stands between, is no option
/// of that command itself. `arguments` are what `named` was found in; behind `fabring run` they end where the program
/// begins. Errors: invalid_argument, with the option as it was typed.
Status check_values(const NamedCommand& named, const std::vector<std::string>& arguments);

}  // namespace fabring::tools

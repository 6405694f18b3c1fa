#pragma once
// spelt_our_way(): options as people's fingers know them from other launchers (-np 4, --num-proc 4, -hostfile F), spelt
// our way before CLI11 reads them: it would take "-np 4" for "-n p".

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace fabring::tools {

/// `arguments`: a subcommand and what follows. Of a subcommand that ends in somebody else's program (run) only its own
/// options are touched: the first word that is neither an option nor an option's value begins the program.
std::vector<std::string> spelt_our_way(std::vector<std::string> arguments, const CLI::App& app);

}  // namespace fabring::tools

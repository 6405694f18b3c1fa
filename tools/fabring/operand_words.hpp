#pragma once
// What people call an operation by, the same for every subcommand: collectives, data types, reductions, algorithms, and
// what is a setting too. Errors are invalid_argument, with what is known and the nearest of it.

#include <string>
#include <string_view>

#include "fabring/config.hpp"
#include "fabring/status.hpp"
#include "fabring/types.hpp"

namespace fabring {
struct Machine;
}

namespace fabring::tools {

/// "which collective? allreduce, reduce, ...", where none was named.
std::string which_collective();

/// A collective: all but messages, which have no plans.
Result<Collective> read_collective(std::string_view text);
/// The value of -d.
Result<DataType> read_type(std::string_view text);
/// The value of -o.
Result<ReduceOp> read_operation(std::string_view text);

/// The value of `option` as the setting reads it, in its field. Errors: the setting's, behind the option.
Result<Config> read_as_setting(std::string_view setting, std::string_view option, std::string_view text);

/// The value of --machine: a name or a file. Errors: unavailable, a file that cannot be read or
/// describes no machine; else invalid_argument.
Result<Machine> read_priced_machine(const std::string& text);

/// --algorithm names one that the collective does not have.
Status no_such_algorithm(std::string_view given, Collective collective);

}  // namespace fabring::tools

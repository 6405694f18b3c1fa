// Machines as JSON: a file, or what rank 0 sends.

#include "runtime/startup/machine_file.hpp"

#include "tests/fuzz/targets.hpp"

namespace fabring::fuzz::machine_file {

void run(std::string_view input) {
  const auto machine = machine_from_json(std::string(input));
  if (!machine) return require(machine.error().code() == ErrorCode::invalid_argument, "what is refused says why");
  require(check_machine(*machine).ok(), "what is accepted is sound");
  const std::string written = machine_to_json(*machine);
  require(written.size() <= most_machine_bytes, "it can be sent");
  const auto again = machine_from_json(written);
  require(again && machine_to_json(*again) == written, "and stays what it is");
}

Seeds seeds() {
  Seeds all{R"({"base": "10g", "name": "ours", "cores": 8, "between": {"latency_ns": 9000}})", R"({"nics": [[1]]})"};
  for (const std::string_view name : machine_names()) all.push_back(machine_to_json(*find_machine(name)));
  return all;
}

}  // namespace fabring::fuzz::machine_file

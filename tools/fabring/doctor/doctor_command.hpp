#pragma once
// The parts of `fabring doctor`: each is one file that adds itself below the command `doctor`, as subcommands do below
// `fabring`, and leaves its exit code in the Session.

#include "tools/fabring/command.hpp"

namespace fabring::tools {

void add_doctor_host(CLI::App& doctor, Session& session);
void add_doctor_explain(CLI::App& doctor, Session& session);
void add_doctor_bench(CLI::App& doctor, Session& session);
void add_doctor_hang(CLI::App& doctor, Session& session);
void add_doctor_net(CLI::App& doctor, Session& session);

/// `fabring doctor --json` is `fabring doctor host --json`: puts in the part that is meant when none is named, and
/// keeps negative codes from looking like options. `command`: what stands behind "--"; `explain` takes it as words.
void name_the_part_of_doctor(std::vector<std::string>& arguments, std::vector<std::string>& command);

}  // namespace fabring::tools

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

/// `fabring doctor --json` is `fabring doctor host --json`, and `fabring doctor --json net` `fabring doctor net
/// --json`: puts the part that is meant before its options, and keeps negative codes from looking like options.
/// `command`: what stands behind "--"; `explain` takes it as words. `app` has all commands.
void name_the_part_of_doctor(std::vector<std::string>& arguments, std::vector<std::string>& command,
                             const CLI::App& app);

}  // namespace fabring::tools

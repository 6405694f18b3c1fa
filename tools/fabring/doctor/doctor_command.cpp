// `fabring doctor`: what is wrong with host and fabric, and what to do. Only tells its parts apart.

#include "tools/fabring/doctor/doctor_command.hpp"

#include <CLI/CLI.hpp>

namespace fabring::tools {

void add_doctor(CLI::App& app, Session& session) {
  CLI::App* doctor = app.add_subcommand("doctor", "What is wrong with host and fabric, and what to do");
  doctor->require_subcommand(1);
  add_doctor_host(*doctor, session);
  add_doctor_net(*doctor, session);
  add_doctor_bench(*doctor, session);
  add_doctor_hang(*doctor, session);
  add_doctor_explain(*doctor, session);
  doctor->footer(
      "Without a part: host. Exit codes: 0 fine or warnings only, 1 a critical finding (with --strict: a warning),\n"
      "2 usage, 3 could not check.\n"
      "Example: fabring doctor");
}

void name_the_part_of_doctor(std::vector<std::string>& arguments, std::vector<std::string>& command) {
  if (arguments.empty() || arguments[0] != "doctor") return;
  if (arguments.size() > 1 &&
      arguments[1] == "explain") {  // it starts nothing: these are words, whatever they begin with
    for (const std::string& word : command) arguments.push_back(" " + word);
    command.clear();
  }
  // A code like -61 is no option, and a line of a log like "[a, b]" no list: the blank keeps the parser from taking
  // them for one.
  for (std::size_t i = 2; i < arguments.size() && arguments[1] == "explain"; ++i) {
    const std::string& word = arguments[i];
    const bool code = word.size() > 1 && word[0] == '-' && word.find_first_not_of("0123456789", 1) == std::string::npos;
    if (code || word.starts_with('[')) arguments[i].insert(0, " ");
  }
  const std::string next = arguments.size() > 1 ? arguments[1] : "";
  if (next == "-h" || next == "--help" || (!next.empty() && next[0] != '-')) return;
  arguments.insert(arguments.begin() + 1, "host");
}

}  // namespace fabring::tools

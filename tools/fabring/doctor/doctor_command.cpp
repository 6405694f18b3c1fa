// `fabring doctor`: what is wrong with host and fabric, and what to do. Only tells its parts apart.

#include "tools/fabring/doctor/doctor_command.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>

namespace fabring::tools {
namespace {

// Where the part is named: behind options, the values of some of which are no part.
std::size_t place_of_the_part(const std::vector<std::string>& arguments, const CLI::App& app) {
  const auto doctor = app.get_subcommands([](const CLI::App* one) { return one->get_name() == "doctor"; });
  const auto parts = doctor.front()->get_subcommands([](const CLI::App*) { return true; });
  const auto takes_a_value = [&](const std::string& word) {
    return std::any_of(parts.begin(), parts.end(), [&](const CLI::App* part) {
      const CLI::Option* option = part->get_option_no_throw(word);
      return option != nullptr && option->get_items_expected_max() > 0;
    });
  };
  std::size_t at = 1;
  while (at < arguments.size() && arguments[at].starts_with('-')) at += takes_a_value(arguments[at]) ? 2 : 1;
  return at;
}

}  // namespace

void add_doctor(CLI::App& app, Session& session) {
  CLI::App* doctor = app.add_subcommand("doctor", "What is wrong with host and fabric, and what to do");
  doctor->require_subcommand(1);
  add_doctor_host(*doctor, session);
  add_doctor_net(*doctor, session);
  add_doctor_bench(*doctor, session);
  add_doctor_hang(*doctor, session);
  add_doctor_explain(*doctor, session);
  doctor->footer(
      "Without a part: host. Every part takes --json, --explain, --strict, --output FILE and --timeout TIME, before "
      "or\n"
      "behind its name; `fabring doctor net --help` says what else that takes.\n"
      "Exit codes: 0 fine or warnings only, 1 a critical finding (with --strict: a warning), 2 usage, 3 could not "
      "check.\n"
      "Example: fabring doctor");
}

void name_the_part_of_doctor(std::vector<std::string>& arguments, std::vector<std::string>& command,
                             const CLI::App& app) {
  if (arguments.empty() || arguments[0] != "doctor") return;
  if (const std::size_t at = place_of_the_part(arguments, app); at < arguments.size()) {
    const auto part = arguments.begin() + static_cast<std::ptrdiff_t>(at);
    std::rotate(arguments.begin() + 1, part, part + 1);
  }
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

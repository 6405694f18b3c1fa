#include "tools/fabring/command.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>

#include "runtime/base/nearest_name.hpp"

namespace fabring::tools {

void complain(const std::string& subcommand, const std::string& text) {
  const std::string line = "fabring " + subcommand + ": " + text + "\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

int could_not_run(const std::string& subcommand, const std::string& text) {
  complain(subcommand, text);
  return exit_could_not_run;
}

int could_not_run(const std::string& subcommand, const Status& why) { return could_not_run(subcommand, why.message()); }

int wrong_usage(const std::string& subcommand, const std::string& text) {
  complain(subcommand, text);
  return exit_usage;
}

std::string unknown_option(const CLI::App& app, const std::string& argument) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options({})) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  const std::string word = argument.substr(0, argument.find('='));
  return "unknown option " + word + did_you_mean(word, known);
}

}  // namespace fabring::tools

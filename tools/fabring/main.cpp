// The `fabring` command: splits off what follows "--", lets the subcommands add themselves, and turns errors of usage
// into a sentence with the nearest option and exit code 2.

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>

#include "fabring/version.hpp"
#include "runtime/base/nearest_name.hpp"
#include "tools/fabring/command.hpp"
#include "tools/fabring/command_words.hpp"
#include "tools/fabring/common_options.hpp"
#include "tools/fabring/doctor/doctor_command.hpp"
#include "tools/fabring/help_text.hpp"
#include "tools/fabring/launch/launcher_words.hpp"

namespace fabring::tools {
namespace {

// libinfinipath and libpsm2, which libfabric may load, take over SIGINT and SIGTERM while they are loaded and exit with
// 1, unless these say no. For this process and all ranks that it starts; before there is a second thread.
void keep_signal_handlers() {
  ::setenv("IPATH_NO_BACKTRACE", "1", 0);
  ::setenv("HFI_NO_BACKTRACE", "1", 0);
}

// Else the first file or socket that is opened takes the number of a stream that the caller has closed, and what is
// printed goes there. What is written to the stand-in fails, as to a closed one; reading finds the end.
void keep_numbers_of_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) == -1 && errno == EBADF) [[maybe_unused]]
      const int stand_in = ::open("/dev/null", O_RDONLY);  // the lowest that is free
}

std::string suggestion(const std::string& word, const std::vector<std::string>& known) {
  const std::vector<std::string_view> views(known.begin(), known.end());
  return did_you_mean(word, views);
}

// The visible subcommands directly below `app`.
std::vector<std::string> subcommands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); }))
    names.push_back(command->get_name());
  return names;
}

// "; doctor net has it": of a part of doctor, which may be meant without being named.
std::string who_has(const CLI::App& part, const std::string& argument) {
  std::vector<std::string> others;
  for (const CLI::App* other : part.get_parent()->get_subcommands([](const CLI::App*) { return true; }))
    if (other->get_option_no_throw(argument.substr(0, argument.find('='))) != nullptr)
      others.push_back(part.get_parent()->get_name() + " " + other->get_name());
  if (others.empty()) return {};
  return fmt::format("; {} {} it", fmt::join(others, " and "), others.size() == 1 ? "has" : "have");
}

// `path`: " doctor net".
int refuse(const std::string& path, const std::string& text) {
  std::cerr << "fabring" << path << ": " << text << "\nTry `fabring" << path << " --help`.\n";
  return exit_usage;
}

// A word where a subcommand is expected; `command` has some.
int no_such_subcommand(const NamedCommand& named, const std::string& word) {
  const std::vector<std::string> names = subcommands(*named.command);
  return refuse(named.path, fmt::format("'{}' is not a subcommand{} (known: {})", word, suggestion(word, names),
                                        fmt::join(names, ", ")));
}

// "'extra' is one word too many: perf takes COLLECTIVE and options".
std::string one_too_many(const CLI::App& command, const std::string& word) {
  std::string taken;
  for (const CLI::Option* one : command.get_options([](const CLI::Option* any) { return any->get_positional(); }))
    taken += one->get_type_name() + " and ";
  return fmt::format("'{}' is one word too many: {} takes {}", word, command.get_name(),
                     taken.empty() ? "options only" : taken + "options");
}

int usage_error(const NamedCommand& named, const CLI::ParseError& error) {
  const CLI::App& command = *named.command;
  std::string text = error.what();
  if (named.words == 0) return refuse(named.path, text);
  const std::vector<std::string> remaining = command.remaining();
  const auto option = std::find_if(remaining.begin(), remaining.end(), [](const std::string& argument) {
    return argument.size() > 1 && argument[0] == '-';
  });
  if (option != remaining.end())
    text = unknown_option(command, *option) + (named.words > 1 ? who_has(command, *option) : "");
  else if (!remaining.empty() && dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr)
    text = one_too_many(command, remaining.front());
  return refuse(named.path, text);
}

int run(int argc, char** argv) {
  Session session;
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  const auto dashes = std::find(words.begin(), words.end(), "--");
  session.arguments.assign(words.begin(), dashes);
  if (dashes != words.end()) session.command.assign(dashes + 1, words.end());

  CLI::App app("Fabring: collective communication on libfabric, without MPI", "fabring");
  app.formatter(std::make_shared<HelpText>());
  app.set_version_flag("--version", "fabring " FABRING_VERSION);
  app.require_subcommand(1);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  add_run(app, session);
  add_perf(app, session);
  add_plan(app, session);
  add_simulate(app, session);
  add_doctor(app, session);
  add_settings(app, session);
  add_status(app, session);
  add_topo(app, session);
  add_agent(app, session);
  add_strict(app, session);
  app.footer(
      "Of an option that is given twice the last counts, as where a script adds to what it was given.\n"
      "Exit codes: 0 fine, 1 wrong results or a critical finding, 2 usage, 3 could not run.\n"
      "Example: fabring run -n 4 -- ./my_program");
  name_the_part_of_doctor(session.arguments, session.command, app);
  session.arguments = spelt_our_way(std::move(session.arguments), app);
  const NamedCommand named = named_command(app, session.arguments);
  if (named.words < session.arguments.size() && !subcommands(*named.command).empty())
    if (const std::string& word = session.arguments[named.words]; !word.starts_with('-'))
      return no_such_subcommand(named, word);
  if (const Status values = check_values(named, session.arguments); !values.ok())
    return refuse(named.path, values.message());
  try {
    std::vector<std::string> reversed(session.arguments.rbegin(), session.arguments.rend());
    app.parse(std::move(reversed));
  } catch (const CLI::Success& success) {  // --help, --version
    const int code = app.exit(success);
    if (std::cout.flush()) return code;
    std::cerr << "fabring: stdout: cannot write: " << std::strerror(errno) << '\n';
    return exit_could_not_run;
  } catch (const CLI::ParseError& error) {
    return usage_error(named, error);
  }
  apply_strict(session);
  return session.exit_code;
}

}  // namespace
}  // namespace fabring::tools

int main(int argc, char** argv) {
  try {
    fabring::tools::keep_numbers_of_closed_streams();
    fabring::tools::keep_signal_handlers();
    return fabring::tools::run(argc, argv);
  } catch (const std::exception& error) {  // CLI11 and the JSON writer throw; bad_alloc
    std::cerr << "fabring: " << error.what() << '\n';
    return fabring::tools::exit_could_not_run;
  }
}

#include "tools/fabring/command.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "runtime/base/nearest_name.hpp"

namespace fabring::tools {
namespace {

// What other launchers and nccl-tests call it, where the letters do not lead there.
constexpr std::pair<std::string_view, std::string_view> called_elsewhere[] = {
    {"--iters", "--iterations"}, {"--warmup_iters", "--warmup"}, {"--minbytes", "--begin"},
    {"--maxbytes", "--end"},     {"--stepfactor", "--factor"},   {"--ppn", "--hosts"},
    {"-ppn", "--hosts"},         {"-npernode", "--hosts"},       {"--npernode", "--hosts"}};

// The one option that is meant by another's name for it, or by its first letters; else the nearest.
std::string meant_by(const std::string& word, const std::vector<std::string_view>& known) {
  const auto has = [&](std::string_view name) { return std::ranges::find(known, name) != known.end(); };
  for (const auto& [theirs, ours] : called_elsewhere)
    if (word == theirs && has(ours))
      return ours == "--hosts" ? "; ranks of a host stand behind its name: --hosts a:4,b:4"
                               : "; did you mean '" + std::string(ours) + "'?";
  const auto begins = [&](std::string_view name) { return word.size() > 3 && name.starts_with(word); };
  if (std::ranges::count_if(known, begins) == 1)
    return "; did you mean '" + std::string(*std::ranges::find_if(known, begins)) + "'?";
  return did_you_mean(word, known);
}

}  // namespace

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
    if (option->get_group().empty()) continue;  // --help does not list it either
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  const std::string word = argument.substr(0, argument.find('='));
  return "unknown option " + word + meant_by(word, known);
}

}  // namespace fabring::tools

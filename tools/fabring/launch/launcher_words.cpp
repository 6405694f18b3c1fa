#include "tools/fabring/launch/launcher_words.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>
#include <utility>

namespace fabring::tools {
namespace {

constexpr std::string_view ranks_elsewhere[] = {"-np", "--np", "--num-proc"};

constexpr std::pair<std::string_view, std::string_view> long_names_with_one_dash[] = {
    {"-hostfile", "--hostfile"}, {"-prefix-timestamp", "--prefix-output-with-timestamp"}, {"-cb", "--check-build"}};

bool says_ranks(std::string_view word) {
  return std::find(std::begin(ranks_elsewhere), std::end(ranks_elsewhere), word) != std::end(ranks_elsewhere);
}

// "-np4": CLI11 would take it for "-n p4".
bool has_ranks_attached(std::string_view word) {
  return word.size() > 3 && word.starts_with("-np") &&
         word.find_first_not_of("0123456789", 3) == std::string_view::npos;
}

bool takes_a_value(const CLI::App& command, const std::string& word) {
  const CLI::Option* option = command.get_option_no_throw(word);
  return option != nullptr && option->get_items_expected_max() > 0;
}

}  // namespace

std::vector<std::string> spelt_our_way(std::vector<std::string> arguments, const CLI::App& app) {
  if (arguments.empty()) return arguments;
  if (arguments[0] == "help") {
    arguments.erase(arguments.begin());
    arguments.emplace_back("--help");
  }
  const auto named = app.get_subcommands([&](const CLI::App* one) { return one->get_name() == arguments[0]; });
  if (named.empty()) return arguments;
  const CLI::App& command = *named.front();
  for (std::size_t at = 1; at < arguments.size(); ++at) {
    if (!arguments[at].starts_with('-')) {
      if (command.get_prefix_command()) break;
      continue;
    }
    const std::size_t equals = arguments[at].find('=');
    if (equals != std::string::npos && says_ranks(std::string_view(arguments[at]).substr(0, equals))) {
      const std::string value = arguments[at].substr(equals + 1);
      arguments[at] = "-n";
      arguments.insert(arguments.begin() + static_cast<std::ptrdiff_t>(at) + 1, value);
    }
    if (says_ranks(arguments[at])) arguments[at] = "-n";
    if (has_ranks_attached(arguments[at])) arguments[at].erase(2, 1);
    for (const auto& [theirs, ours] : long_names_with_one_dash)
      if (arguments[at] == theirs) arguments[at] = ours;
    if (takes_a_value(command, arguments[at])) ++at;
  }
  return arguments;
}

}  // namespace fabring::tools

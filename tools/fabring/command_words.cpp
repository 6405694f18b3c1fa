#include "tools/fabring/command_words.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "tools/fabring/command.hpp"

namespace fabring::tools {
namespace {

// The option that begins a word: "--sizes", "--sizes=4" or "-n4"; null: it begins with none.
const CLI::Option* option_in(const CLI::App& command, const std::string& word) {
  if (word.size() < 2 || word[0] != '-') return nullptr;
  return command.get_option_no_throw(word[1] == '-' ? word.substr(0, word.find('=')) : word.substr(0, 2));
}

// "--svg FILE", as --help has it.
std::string how_to_write(const CLI::Option& option, const std::string& typed) {
  const std::string value = option.get_type_name();
  return typed + " " + value.substr(0, value.find(":["));
}

}  // namespace

NamedCommand named_command(const CLI::App& app, const std::vector<std::string>& arguments) {
  NamedCommand named{&app, {}, 0};
  for (const std::string& word : arguments) {
    const auto below = named.command->get_subcommands([&](const CLI::App* one) { return one->get_name() == word; });
    if (below.empty()) break;
    named = {below.front(), named.path + " " + word, named.words + 1};
  }
  return named;
}

Status check_values(const NamedCommand& named, const std::vector<std::string>& arguments) {
  for (std::size_t at = named.words; at < arguments.size(); ++at) {
    const std::string& word = arguments[at];
    if (!word.starts_with('-') && named.command->get_prefix_command()) break;
    const CLI::Option* option = option_in(*named.command, word);
    if (option == nullptr || option->get_items_expected_max() == 0) continue;
    const std::size_t equals = word.find('=');
    const bool is_long = word[1] == '-';
    if (is_long ? equals + 1 < word.size() && equals != std::string::npos : word.size() > 2) continue;  // it is in here
    const std::string typed = is_long ? word.substr(0, equals) : word;
    const std::string lacks = fmt::format("{} lacks its value", typed);
    const std::string write = fmt::format("write {}, or leave it out", how_to_write(*option, typed));
    if (equals == std::string::npos && ++at == arguments.size()) return wrong_argument(lacks + ": " + write);
    const std::string& value = arguments[at];
    if (equals != std::string::npos || value.empty())
      return wrong_argument(fmt::format("{}: it is empty, as from a variable that is not set; {}", lacks, write));
    if (option_in(*named.command, value) != nullptr)
      return wrong_argument(fmt::format("{}: '{}' behind it is an option; {}", lacks, value, write));
  }
  return {};
}

}  // namespace fabring::tools

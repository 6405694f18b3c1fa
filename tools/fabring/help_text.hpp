#pragma once
// HelpText: what `fabring ... --help` looks like: an option, its value, then in lines that fit a terminal what it is,
// its default (in brackets, like those that descriptions name themselves) and what option_checks.hpp allows.

#include <CLI/CLI.hpp>
#include <string>

namespace fabring::tools {

class HelpText : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
};

}  // namespace fabring::tools

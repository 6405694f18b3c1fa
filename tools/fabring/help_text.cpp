#include "tools/fabring/help_text.hpp"

#include <fmt/format.h>

#include "tools/fabring/wrapped_text.hpp"

namespace fabring::tools {
namespace {

constexpr std::size_t help_columns = 110;

}  // namespace

std::string HelpText::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  std::string text = Formatter::make_help(app, std::move(name), mode);
  // CLI11 leaves an empty line after each group of options and one before the next.
  for (std::size_t at; (at = text.find("\n\n\n")) != std::string::npos;) text.erase(at, 1);
  return text;
}

// What follows -- is no option and no positional of ours, so that CLI11 knows nothing of it.
std::string HelpText::make_usage(const CLI::App* app, std::string name) const {
  std::string text = Formatter::make_usage(app, std::move(name));
  if (app->get_prefix_command()) text.insert(text.find_last_not_of('\n') + 1, " -- CMD ...");
  return text;
}

std::string HelpText::make_option(const CLI::Option* option, bool is_positional) const {
  std::string head = "  " + make_option_name(option, is_positional), limits;
  if (option->get_type_size() != 0) {  // no flag: "NAME:[LOW to HIGH]", or without limits "NAME"
    std::string value = option->get_type_name();
    if (const std::size_t at = value.find(":["); at != std::string::npos) {
      limits = " " + value.substr(at + 1);
      value.resize(at);
    }
    if (!value.empty()) head += " " + value;
    if (option->get_expected_max() == CLI::detail::expected_max_vector_size) head += " ...";
  }
  const std::string& fallback = option->get_default_str();
  const std::string text = option->get_description() + (fallback.empty() ? "" : " (" + fallback + ")") + limits;
  const std::size_t column = get_column_width();
  if (head.size() >= column) return head + "\n" + wrapped(std::string(column, ' ') + text, help_columns, column) + "\n";
  return wrapped(fmt::format("{:<{}}{}", head, column, text), help_columns, column) + "\n";
}

}  // namespace fabring::tools

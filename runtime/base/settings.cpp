#include "runtime/base/settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "runtime/base/nearest_name.hpp"
#include "runtime/base/service_links.hpp"
#include "runtime/base/setting_values.hpp"

extern char** environ;  // POSIX: declared by no header unless _GNU_SOURCE is set

namespace fabring {
namespace {

// What comes from outside may hold anything, and is shown on terminals.
std::string printable(std::string_view text) {
  std::string shown;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    shown += byte < 0x20 || byte == 0x7f ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return shown;
}

Status unknown_setting(std::string_view name, std::string_view what) {
  std::vector<std::string_view> names;
  for (const Setting& known : settings()) names.push_back(known.name);
  return {ErrorCode::invalid_argument,
          fmt::format("{} {}{} (`fabring settings` lists them all)",
                      name.empty() ? "''" : printable(name.substr(0, 200)), what, did_you_mean(name, names))};
}

}  // namespace

Environment process_environment() {
  Environment copy;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos) copy.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return copy;
}

const Setting* find_setting(std::string_view name) {
  for (const Setting& row : settings())
    if (row.name == name) return &row;
  return nullptr;
}

std::string default_text(const Setting& row) { return row.unset.empty() ? row.show(Config{}) : std::string(row.unset); }

std::string description(const Setting& row) {
  return fmt::format("{}{}", row.paragraph, row.alike ? " Must be the same on all ranks." : "");
}

bool is_service_variable(std::string_view name, std::string_view value) {
  return name.starts_with("FABRING_") && find_setting(name) == nullptr && tells_of_a_service(name, value);
}

Status apply_setting(const Setting& row, std::string_view text, Config& into) {
  Status status = row.read(row, text, into);
  if (const std::string why = hidden_by_a_service(row.name, text); !status.ok() && !why.empty())
    status = Status(ErrorCode::invalid_argument, why);
  if (status.ok()) return status;
  return {status.code(), printable(fmt::format("{}={}: {}", row.name, text.substr(0, 200), status.message()))};
}

Result<const Setting*> known_setting(std::string_view name) {
  if (const Setting* row = find_setting(name)) return row;
  return unknown_setting(name, "is not a setting of Fabring");
}

Status apply_setting(std::string_view name, std::string_view text, Config& into) {
  if (is_service_variable(name, text)) return {};
  auto row = known_setting(name);
  if (!row) return row.error();
  return text.empty() ? Status() : apply_setting(**row, text, into);
}

Status apply_settings(const Environment& environment, Config& into) {
  constexpr std::string_view prefix = "FABRING_";
  for (auto at = environment.lower_bound(prefix); at != environment.end() && at->first.starts_with(prefix); ++at) {
    if (is_service_variable(at->first, at->second)) continue;
    const Setting* row = find_setting(at->first);
    if (row == nullptr) return unknown_setting(at->first, "is set in the environment but is not a setting of Fabring");
    if (!at->second.empty()) FABRING_TRY(apply_setting(*row, at->second, into));
  }
  return {};
}

std::string settings_markdown() {
  std::string text = "| setting | type | default | what it does |\n|---|---|---|---|\n";
  for (const Setting& row : settings()) {
    std::string type(row.type);
    if (!row.choices.empty()) {
      type += ": ";
      type += fmt::format("{}", fmt::join(words_of(row.choices), ", "));
    } else if (row.unit == "s") {
      type += " (s)";
    } else if (!row.unit.empty() && row.unit != "bytes") {
      type += fmt::format(" ({})", row.unit);
    }
    text += fmt::format("| `{}` | {} | {} | {} |\n", row.name, type, default_text(row), description(row));
  }
  return text;
}

}  // namespace fabring

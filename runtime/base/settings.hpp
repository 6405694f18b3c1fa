#pragma once
// The settings table: one row per setting, bound to its field of Config. The environment is a value handed in; the one
// place that reads the process's own is process_environment(). `fabring settings` and the table of docs/settings.md
// are printed from these rows.

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fabring/config.hpp"
#include "fabring/status.hpp"

namespace fabring {

using Environment = std::map<std::string, std::string, std::less<>>;

/// A copy of this process's environment.
Environment process_environment();

struct Setting {
  std::string_view name;       ///< FABRING_RANK
  std::string_view type;       ///< integer, duration, size, text, list, flag
  std::string_view unit;       ///< of a number without a suffix; empty: none
  std::string_view choices;    ///< allowed words, comma-separated; empty: any
  std::string_view unset;      ///< what the default means where the field cannot say it; empty: the field says it
  std::string_view paragraph;  ///< for people; description() says all
  Status (*read)(const Setting& row, std::string_view text, Config& into);
  std::string (*show)(const Config& from);  ///< the field as text; empty: not set
  bool alike = false;  ///< ranks that differ in it do not start (compare() of startup/identity.hpp)
};

std::span<const Setting> settings();
const Setting* find_setting(std::string_view name);
/// What holds when the variable is not set.
std::string default_text(const Setting& row);

/// The paragraph, and whether all ranks must have the same.
std::string description(const Setting& row);

/// Kubernetes tells every container of the Services beside it in variables: FABRING_MASTER_SERVICE_HOST for one that is
/// named fabring-master. They are no settings, and are passed over.
bool is_service_variable(std::string_view name, std::string_view value);

/// Sets one field by its row; the error names the variable, what was wrong and what is allowed.
Status apply_setting(const Setting& row, std::string_view text, Config& into);
/// The same by name; an empty value changes nothing, nor does a service variable. Also an error: a name that is none of
/// ours, with the nearest one.
Status apply_setting(std::string_view name, std::string_view text, Config& into);
/// Its row; or invalid_argument with the nearest name that is one of ours.
Result<const Setting*> known_setting(std::string_view name);

/// Sets every field whose variable is in the environment (an empty value counts as not set). Errors: the first bad
/// value, or a FABRING_* name that is none of ours, with the nearest one that is.
Status apply_settings(const Environment& environment, Config& into);

/// FABRING_SCRATCH_BYTES, or what it is where that is not set.
inline std::size_t scratch_budget(const Config& config) {
  return config.scratch_bytes != 0 ? config.scratch_bytes : std::size_t{32} << 20;
}

/// FABRING_STAGING_BYTES, likewise.
inline std::size_t staging_budget(const Config& config) {
  return config.staging_bytes != 0 ? config.staging_bytes : std::size_t{64} << 20;
}

/// The table as Markdown, for docs/settings.md.
std::string settings_markdown();

}  // namespace fabring

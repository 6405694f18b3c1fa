// `fabring settings`: every setting, its value here and now, and where it came from.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/bootstrap/environment_config.hpp"
#include "runtime/startup/config_check.hpp"
#include "tools/fabring/command.hpp"
#include "tools/fabring/common_options.hpp"
#include "tools/fabring/output.hpp"
#include "tools/fabring/time_limit.hpp"

namespace fabring::tools {
namespace {

struct SettingsOptions : CommonOptions {
  bool markdown = false;
};

struct SettingRow {
  std::string name;
  const Setting* setting = nullptr;  ///< none: the name is of no setting
  std::string value, source, error;  ///< error: why no rank takes the value; empty where ranks do
};

std::string source_of(const std::string& variable) { return "environment " + variable; }

// One row per setting; a bad value is reported in its row and does not hide the others. Then one for each FABRING_*
// that is no setting.
std::vector<SettingRow> resolve(const Environment& environment, Status& launch, std::vector<std::string>& problems) {
  Environment good;
  std::map<std::string, std::string, std::less<>> errors;
  const auto refuse = [&](std::string_view name, const Status& why) {
    problems.push_back(why.message());
    errors.emplace(name, why.message());
  };
  for (const auto& [name, value] : environment) {
    if (!name.starts_with("FABRING_")) {
      good.emplace(name, value);
      continue;
    }
    Config scratch;
    if (Status status = apply_settings({{name, value}}, scratch); status.ok())
      good.emplace(name, value);
    else
      refuse(name, status);
  }
  auto resolved = resolve_config(good, launch_facts());
  const ResolvedConfig known = resolved ? *resolved : ResolvedConfig{};
  launch = resolved ? known.launch : resolved.error();
  for (const RefusedValue& refused : refused_values(known.config)) refuse(refused.setting, refused.why);
  // A rank that is given and impossible is a mistake; that none is given, a note.
  for (const char* given : {"FABRING_RANK", "FABRING_WORLD_SIZE"})
    if (const auto source = known.sources.find(given);
        !launch.ok() && source != known.sources.end() && source->second == source_of(given))
      refuse(given, std::exchange(launch, Status()));
  std::vector<SettingRow> rows;
  const auto add = [&](const std::string& name, const Setting* setting) -> SettingRow& {
    const auto error = errors.find(name);
    rows.push_back({name, setting, {}, {}, error == errors.end() ? "" : error->second});
    return rows.back();
  };
  for (const Setting& setting : settings()) {
    SettingRow& row = add(std::string(setting.name), &setting);
    const auto source = known.sources.find(setting.name);
    const auto given = environment.find(row.name);
    if (!row.error.empty() && !good.contains(row.name) && given != environment.end()) {
      row.value = given->second;
      row.source = source_of(row.name);
      continue;
    }
    row.value = setting.show(known.config);
    row.source = source == known.sources.end() ? "default" : source->second;
    if (row.value.empty() && source == known.sources.end()) row.value = default_text(setting);
  }
  for (const auto& [name, why] : errors)
    if (find_setting(name) == nullptr) {
      SettingRow& row = add(name, nullptr);
      row.value = environment.at(name);
      row.source = source_of(name);
    }
  return rows;
}

std::string as_json(const std::vector<SettingRow>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const SettingRow& row : rows) {
    const Setting* const known = row.setting;
    list.push_back({{"name", row.name},
                    {"value", row.value},
                    {"source", row.source},
                    {"type", known == nullptr ? "" : known->type},
                    {"unit", known == nullptr ? "" : known->unit},
                    {"default", known == nullptr ? "" : default_text(*known)},
                    {"description", known == nullptr ? "" : description(*known)},
                    {"error", row.error}});
  }
  return list.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string as_text(const std::vector<SettingRow>& rows) {
  std::string text;
  for (const SettingRow& row : rows)
    text += fmt::format("{:<27} {}  ({}{})\n    {}\n", row.name, row.value, row.source,
                        row.error.empty() ? "" : ", refused",
                        row.setting == nullptr ? row.error : description(*row.setting));
  return text;
}

// Why the values are these: who was asked, in which order, and what of it was there.
std::string looked_for(const std::vector<SettingRow>& rows, const Status& launch) {
  std::vector<std::string> own, launchers;
  for (const SettingRow& row : rows) {
    if (row.source == source_of(row.name))
      own.push_back(row.name);
    else if (row.source != "default")
      launchers.push_back(fmt::format("{} from {}", row.name, row.source));
  }
  const auto listed = [](const std::vector<std::string>& all) {
    return all.empty() ? std::string("none here") : fmt::format("{}", fmt::join(all, ", "));
  };
  return fmt::format(
      "\nA value is the first that there is of: a FABRING_* of the environment ({}); what a launcher says ({}); the "
      "default.\n{}",
      listed(own), listed(launchers), launch.ok() ? "" : launch.message() + "\n");
}

int run(const SettingsOptions& options) {
  if (options.markdown && options.json)
    return wrong_usage("settings", "--markdown and --json are two formats: take one\nTry `fabring settings --help`.");
  Output out;
  Status launch;
  std::vector<std::string> problems;
  const std::vector<SettingRow> rows = resolve(process_environment(), launch, problems);
  if (Status status = out.open(options.output); !status) return could_not_run("settings", status);
  const std::string why = options.explain && !options.markdown ? looked_for(rows, launch) : "";
  out.write(options.markdown ? settings_markdown() : options.json ? as_json(rows) : as_text(rows) + why);
  if (options.json) std::cerr << why;  // stdout is JSON and nothing else
  for (const std::string& problem : problems) complain("settings", problem);
  if (!launch.ok() && !options.markdown && !options.explain) complain("settings", "note: " + launch.message());
  if (Status status = out.finish(); !status) return could_not_run("settings", status);
  return problems.empty() ? exit_fine : exit_wrong;
}

}  // namespace

void add_settings(CLI::App& app, Session& session) {
  auto options = std::make_shared<SettingsOptions>();
  CLI::App* command = app.add_subcommand("settings", "Every setting: its value, where it came from, what it does");
  command->add_flag("--markdown", options->markdown, "The table of all settings for the documentation");
  add_common_options(*command, *options,
                     {.json = "As a JSON array",
                      .explain = "Also where values were looked for, and which launcher is seen here (with --json on "
                                 "stderr)"});
  command->footer(
      "Exit code 1: a FABRING_* variable is unknown or has a value that no rank takes; in the JSON its row has an "
      "error.\n"
      "Example: FABRING_TRANSPORT=tcp fabring settings");
  command->callback([options, &session] {
    session.exit_code = run_within(options->timeout_s, "settings", [&] { return run(*options); });
  });
}

}  // namespace fabring::tools

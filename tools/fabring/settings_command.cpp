// `fabring settings`: every setting, its value here and now, and where it came from.

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/bootstrap/environment_config.hpp"
#include "runtime/startup/config_check.hpp"
#include "tools/fabring/command.hpp"
#include "tools/fabring/output.hpp"

namespace fabring::tools {
namespace {

struct SettingsOptions {
  bool json = false;
  bool markdown = false;
  std::string output;
};

struct SettingRow {
  const Setting* setting;
  std::string value, source, error;
};

// One row per setting; a bad value is reported in its row and does not hide the others.
std::vector<SettingRow> resolve(const Environment& environment, Status& launch, std::vector<std::string>& problems) {
  Environment good;
  std::vector<SettingRow> rows;
  for (const auto& [name, value] : environment) {
    if (!name.starts_with("FABRING_")) {
      good.emplace(name, value);
      continue;
    }
    Config scratch;
    if (Status status = apply_settings({{name, value}}, scratch); status.ok())
      good.emplace(name, value);
    else
      problems.push_back(status.message());
  }
  auto resolved = resolve_config(good, launch_facts());
  const ResolvedConfig known = resolved ? *resolved : ResolvedConfig{};
  launch = resolved ? known.launch : resolved.error();
  for (const RefusedValue& refused : refused_values(known.config)) problems.push_back(refused.why.message());
  // A rank that is given and impossible is a mistake; that none is given, a note.
  if (!launch.ok() && (known.sources.contains("FABRING_RANK") || known.sources.contains("FABRING_WORLD_SIZE")))
    problems.push_back(std::exchange(launch, Status()).message());
  for (const Setting& setting : settings()) {
    const auto source = known.sources.find(setting.name);
    SettingRow row{
        &setting, setting.show(known.config), source == known.sources.end() ? "default" : source->second, {}};
    if (row.value.empty()) row.value = source == known.sources.end() ? default_text(setting) : "";
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string as_json(const std::vector<SettingRow>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const SettingRow& row : rows)
    list.push_back({{"name", row.setting->name},
                    {"value", row.value},
                    {"source", row.source},
                    {"type", row.setting->type},
                    {"unit", row.setting->unit},
                    {"default", default_text(*row.setting)},
                    {"description", row.setting->paragraph}});
  return list.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string as_text(const std::vector<SettingRow>& rows) {
  std::string text;
  for (const SettingRow& row : rows)
    text += fmt::format("{:<27} {}  ({})\n    {}\n", row.setting->name, row.value, row.source, row.setting->paragraph);
  return text;
}

int run(const SettingsOptions& options) {
  Output out;
  Status launch;
  std::vector<std::string> problems;
  const std::vector<SettingRow> rows = resolve(process_environment(), launch, problems);
  if (Status status = out.open(options.output); !status) {
    complain("settings", status.message());
    return exit_could_not_run;
  }
  out.write(options.markdown ? settings_markdown() : options.json ? as_json(rows) : as_text(rows));
  for (const std::string& problem : problems) complain("settings", problem);
  if (!launch.ok() && !options.markdown) complain("settings", "note: " + launch.message());
  if (Status status = out.finish(); !status) {
    complain("settings", status.message());
    return exit_could_not_run;
  }
  return problems.empty() ? exit_fine : exit_wrong;
}

}  // namespace

void add_settings(CLI::App& app, Session& session) {
  auto options = std::make_shared<SettingsOptions>();
  CLI::App* command = app.add_subcommand("settings", "Every setting: its value, where it came from, what it does");
  command->add_flag("--json", options->json, "As a JSON array");
  command->add_flag("--markdown", options->markdown, "The table of all settings for the documentation");
  command->add_option("--output", options->output, "Write to a file")->type_name("FILE");
  command->footer(
      "Exit code 1: a FABRING_* variable is unknown or has a value that no rank takes.\n"
      "Example: FABRING_TRANSPORT=tcp fabring settings");
  command->callback([options, &session] { session.exit_code = run(*options); });
}

}  // namespace fabring::tools

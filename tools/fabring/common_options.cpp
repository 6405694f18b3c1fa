#include "tools/fabring/common_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "runtime/base/log.hpp"
#include "runtime/base/parse_value.hpp"
#include "tools/fabring/command.hpp"
#include "tools/fabring/option_checks.hpp"

namespace fabring::tools {
namespace {

std::atomic<int> warnings{0};

}  // namespace

void add_common_options(CLI::App& command, CommonOptions& options, const CommonHelp& help) {
  command.add_flag("--json", options.json, help.json);
  command.add_flag("--explain", options.explain, help.explain);
  command.add_option("--output", options.output, help.output)->type_name("FILE");
  const auto take = [&options](const std::string& text) {
    options.timeout_s = std::chrono::duration<double>(*parse_duration(text)).count();
  };
  CLI::Option* timeout = command.add_option_function<std::string>("--timeout", take, help.timeout);
  timeout->type_name("TIME")->check(a_duration());
  if (options.timeout_s > 0) timeout->default_str(fmt::format("{:g}s", options.timeout_s));
}

void add_strict(CLI::App& app, Session& session) {
  for (CLI::App* command : app.get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); })) {
    if (!command->get_subcommands({}).empty())
      add_strict(*command, session);
    else if (command->get_option_no_throw("--strict") == nullptr)
      command->add_flag("--strict", session.strict, "A warning that was printed is a failure too: exit code 1");
  }
}

void apply_strict(Session& session) {
  const bool warned = warnings > 0 || Log::warnings_written() > 0;
  if (session.strict && session.exit_code == exit_fine && warned) session.exit_code = exit_wrong;
}

std::chrono::milliseconds limit_of(const CommonOptions& options) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(options.timeout_s * 1000));
}

void warn(const std::string& subcommand, const std::string& text) {
  ++warnings;
  complain(subcommand, "warning: " + text);
}

}  // namespace fabring::tools

// `fabring topo`: what is in this host, or in a recorded one, and which network card serves which GPU and processor.

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/fabring/command.hpp"
#include "tools/fabring/common_options.hpp"
#include "tools/fabring/output.hpp"
#include "tools/fabring/time_limit.hpp"
#include "tools/fabring/topo/topo_report.hpp"
#include "topology/discovery.hpp"

namespace fabring::tools {
namespace {

struct TopoOptions : CommonOptions {
  std::string input, save, svg;
};

Status show(const TopoOptions& options) {
  // hwloc explains broken firmware at length on stderr; what matters of it is missing from what we print.
  ::setenv("HWLOC_HIDE_ERRORS", "2", 0);
  Output out, picture;
  FABRING_TRY(out.open(options.output));
  FABRING_TRY(picture.open(options.svg, "--svg"));
  if (!options.save.empty()) FABRING_TRY(record_topology(options.save).with_prefix("--save "));
  auto topology = options.input.empty() ? discover_topology() : read_topology(options.input);
  if (!topology) return options.input.empty() ? topology.error() : topology.error().with_prefix("--input ");
  if (!options.svg.empty()) picture.write(topology_picture(*topology));
  const std::string why = options.explain ? topology_reasons(*topology) : "";
  out.write(options.json
                ? topology_json(*topology).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n"
                : topology_text(*topology) + why);
  if (options.json) std::cerr << why;  // stdout is JSON and nothing else
  FABRING_TRY(picture.finish());
  return out.finish();
}

int run(const TopoOptions& options) {
  if (!options.input.empty() && !options.save.empty())
    return wrong_usage("topo", "--save records this host and --input shows another one: give one of them");
  if (const Status picture = check_picture("--svg", options.svg, options.output); !picture.ok())
    return wrong_usage("topo", picture.message());
  const std::pair<const char*, const std::string&> files[] = {
      {"--output", options.output}, {"--svg", options.svg}, {"--save", options.save}};
  for (const auto& [first, path] : files)
    for (const auto& [second, other] : files) {
      if (first == second || path.empty() || path == "-" || path != other) continue;
      return wrong_usage("topo", std::string(first) + " and " + second + " name the same file");
    }
  const Status status = show(options);
  return status.ok() ? exit_fine : could_not_run("topo", status);
}

}  // namespace

void add_topo(CLI::App& app, Session& session) {
  auto options = std::make_shared<TopoOptions>();
  CLI::App* command = app.add_subcommand("topo", "What is in this host, and which NIC serves which GPU and processor");
  command->add_option("--svg", options->svg, "Draw it too")->type_name("FILE");
  command->add_option("--input", options->input, "A recorded machine: hwloc's XML, version 2")->type_name("FILE");
  command->add_option("--save", options->save, "Record this host for --input (lstopo reads it too)")->type_name("FILE");
  add_common_options(
      *command, *options,
      {.json = "As JSON", .explain = "Also why these cards serve these GPUs and processors (with --json on stderr)"});
  command->footer("Example: fabring topo --svg host.svg");
  command->callback([options, &session] {
    session.exit_code = run_within(options->timeout_s, "topo", [&] { return run(*options); });
  });
}

}  // namespace fabring::tools

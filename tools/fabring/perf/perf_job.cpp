#include "tools/fabring/perf/perf_job.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "runtime/bootstrap/environment_config.hpp"
#include "runtime/engine/plans/given_plan.hpp"
#include "tools/fabring/node_layout.hpp"
#include "tools/fabring/perf/engine_report.hpp"
#include "tools/fabring/start_together.hpp"

namespace fabring::tools {
namespace {

Result<Config> configuration(const PerfOptions& options, const Environment& environment) {
  auto resolved = resolve_config(environment, launch_facts());
  if (!resolved) return resolved.error();
  if (const Status& launch = resolved->launch; !launch.ok()) {
    const bool alone = launch.message().starts_with("no rank");
    if (!alone) return launch;
    return Status(launch.code(), launch.message() + "; or let perf start ranks on this host with -n N");
  }
  Config* const config = &resolved->config;
  if (!options.transport.empty()) config->transport = options.transport;
  if (!options.algorithm.empty()) config->algorithm = options.algorithm;
  if (options.wire_type || options.kind == PerfKind::guard)
    config->wire_type = wire_type_of(Collective::allreduce, options, std::nullopt);
  if (options.explain) config->explain = true;
  if (options.timeout) {
    config->timeout = *options.timeout;
    config->rendezvous_timeout = std::min(config->rendezvous_timeout, *options.timeout);
  }
  return std::move(*config);
}

}  // namespace

PerfJob::PerfJob(const PerfOptions& options, Config config)
    : options_(options),
      config_(std::move(config)),
      rank_(config_.rank),
      notes_("perf", std::chrono::seconds(::isatty(STDERR_FILENO) != 0 ? 1 : 15)) {}

Result<std::unique_ptr<PerfJob>> PerfJob::of_environment(const PerfOptions& options, const Environment& environment) {
  auto config = configuration(options, environment);
  if (!config) return config.error();
  return std::unique_ptr<PerfJob>(new PerfJob(options, std::move(*config)));
}

Status PerfJob::prepare() {
  if (writes()) {
    FABRING_TRY(out_.open(options_.output));
    FABRING_TRY(plot_.open(options_.plot, "--plot"));
  }
  if (!options_.plan.empty()) {
    const std::string option = "--plan " + options_.plan + ": ";
    auto plans = load_proved_plans(options_.plan);
    if (!plans) return plans.error().with_prefix(option);
    FABRING_TRY(check_use(*plans, options_.collective, options_.root, options_.op).with_prefix(option));
    plans_ = std::move(*plans);
  }
  if (!options_.device) return {};
  auto memory = DeviceMemory::open(config_);
  if (!memory) return memory.error().with_prefix("--memory cuda: ");
  device_ = std::move(*memory);
  facts_.memory = "memory of " + device_->name();
  return {};
}

Status PerfJob::meet(const Status& own) {
  auto engine = start_together(config_, own);
  if (!engine) return engine.error();
  engine_ = std::move(*engine);
  Communicator world = engine_->world();
  if (options_.root >= world.size())
    return {ErrorCode::invalid_argument,
            "--root " + std::to_string(options_.root) + ": ranks are 0 to " + std::to_string(world.size() - 1)};
  measured_ = world;
  if (plans_) {
    auto measured = GivenPlan::give(world, plans_->plans, plans_->proof, plans_->text, "with plans");
    if (!measured) return measured.error().with_prefix("--plan " + options_.plan + ": ");
    measured_ = std::move(*measured);
  }
  const std::vector<int> nodes = world.nodes();
  facts_.ranks = world.size();
  facts_.nodes = nodes.empty() ? 1 : *std::max_element(nodes.begin(), nodes.end()) + 1;
  if (const auto layout = layout_of(nodes); layout && !layout->equal_nodes())
    facts_.ranks_of_nodes = layout->ranks_of_nodes();
  facts_.transport = transports_in_use(*engine_);
  facts_.lanes = std::max(1, engine_->config().sockets_per_peer);
  facts_.wire_type = wire_type_of(options_.kind == PerfKind::sizes ? options_.collective : Collective::allreduce,
                                  options_, engine_->config().wire_type);
  if (options_.mapped) facts_.memory = "mapped memory";
  if (!engine_->config().explain) facts_.report = engine_->report();  // else the engine has said it on stderr
  if (plans_)
    facts_.report.push_back(
        fmt::format("plans of {}: {}, proved at every count of elements", options_.plan, plans_->plans[0].algorithm));
  if (!device_ || nodes.empty()) return {};
  const auto of_this_host = std::count(nodes.begin(), nodes.end(), nodes[static_cast<std::size_t>(world.rank())]);
  if (const std::string turns = device_->turns(static_cast<int>(of_this_host)); !turns.empty())
    facts_.report.push_back(turns);
  return {};
}

void PerfJob::write(const std::string& text) {
  if (!writes()) return;
  out_.write(text);
  open_array_ = options_.format == Format::json;
}

void PerfJob::break_off() {
  if (open_array_) out_.write("\n]\n");
}

void PerfJob::tell_progress(const std::string& text) {
  if (writes() && options_.progress) notes_.say(text);
}

Status PerfJob::finish(const std::string& picture) {
  open_array_ = false;  // the measurement has ended it
  if (writes()) {
    if (!options_.plot.empty()) plot_.write(picture);
    FABRING_TRY(plot_.finish());
    FABRING_TRY(out_.finish());
  }
  measured_ = Communicator();
  return engine_->leave();
}

}  // namespace fabring::tools

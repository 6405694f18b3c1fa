#include "tools/fabring/perf_job.hpp"

#include <unistd.h>

#include <algorithm>

namespace fabring::tools {
namespace {

// The name of the transport that was chosen; with "auto" only the engine's report tells.
std::string chosen_transport(const Engine& engine) {
  for (const std::string& line : engine.report()) {
    constexpr std::string_view label = "transport";
    if (!line.starts_with(label)) continue;
    const std::size_t from = line.find_first_not_of(" :=", label.size());
    if (from == std::string::npos) continue;
    return line.substr(from, line.find_first_of(" ,:;", from) - from);
  }
  return engine.config().transport;
}

Result<Config> configuration(const PerfOptions& options) {
  auto config = Config::from_environment();
  if (!config) {
    const bool alone = config.error().message().starts_with("no rank");
    if (!alone) return config;
    return Status(config.error().code(), config.error().message() + "; or let perf start ranks on this host with -n N");
  }
  if (!options.transport.empty()) config->transport = options.transport;
  if (!options.algorithm.empty()) config->algorithm = options.algorithm;
  if (options.wire_type || options.kind == PerfKind::guard)
    config->wire_type = wire_type_of(Collective::allreduce, options, std::nullopt);
  if (options.explain) config->explain = true;
  return config;
}

}  // namespace

Result<std::unique_ptr<PerfJob>> PerfJob::start(const PerfOptions& options) {
  auto config = configuration(options);
  if (!config) return config.error();
  std::unique_ptr<PerfJob> job(new PerfJob(options));
  job->rank_ = config->rank;
  if (job->writes()) {
    FABRING_TRY(job->out_.open(options.output));
    FABRING_TRY(job->plot_.open(options.plot, "--plot"));
  }
  const std::string of_rank = job->rank_ > 0 ? "rank " + std::to_string(job->rank_) + ": " : "";
  if (options.device) {
    auto memory = DeviceMemory::open(*config);
    if (!memory) return memory.error().with_prefix(of_rank + "--memory cuda: ");
    job->device_ = std::move(*memory);
    job->facts_.memory = "memory of " + job->device_->name();
  }
  auto engine = Engine::create(std::move(*config));
  if (!engine) return engine.error().with_prefix(of_rank);
  job->engine_ = std::move(*engine);
  const Communicator world = job->world();
  if (options.root >= world.size())
    return Status(ErrorCode::invalid_argument,
                  "--root " + std::to_string(options.root) + ": ranks are 0 to " + std::to_string(world.size() - 1));
  const std::vector<int> nodes = world.nodes();
  job->facts_.ranks = world.size();
  job->facts_.nodes = nodes.empty() ? 1 : *std::max_element(nodes.begin(), nodes.end()) + 1;
  job->facts_.transport = chosen_transport(*job->engine_);
  job->facts_.lanes = std::max(1, job->engine_->config().sockets_per_peer);
  job->facts_.wire_type = wire_type_of(options.kind == PerfKind::sizes ? options.collective : Collective::allreduce,
                                       options, job->engine_->config().wire_type);
  if (options.mapped) job->facts_.memory = "mapped memory";
  job->facts_.report = job->engine_->report();
  if (options.explain && job->writes())
    for (const std::string& line : job->facts_.report) complain("perf", line);
  return job;
}

void PerfJob::write(const std::string& text) {
  if (writes()) out_.write(text);
}

void PerfJob::tell_progress(const std::string& text) {
  const auto now = std::chrono::steady_clock::now();
  const std::chrono::seconds pause(::isatty(STDERR_FILENO) != 0 ? 1 : 15);
  if (!writes() || !options_.progress || now - told_ < pause) return;
  told_ = now;
  complain("perf", text);
}

Status PerfJob::finish(const std::string& picture) {
  if (writes()) {
    if (!options_.plot.empty()) plot_.write(picture);
    FABRING_TRY(plot_.finish());
    FABRING_TRY(out_.finish());
  }
  return engine_->leave();
}

}  // namespace fabring::tools

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <iterator>

#include "runtime/bootstrap/environment_config.hpp"

namespace fabring {
namespace {

struct ProcessFacts {
  std::string name;
  int parent = 0;
  std::string start_time;  // with the pid it names a process for good
};

bool read_process(int pid, ProcessFacts& out) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  const std::string stat((std::istreambuf_iterator<char>(file)), {});
  const std::size_t open = stat.find('('), close = stat.rfind(')');  // the name may hold blanks and brackets
  if (open == std::string::npos || close == std::string::npos || close < open) return false;
  out.name = stat.substr(open + 1, close - open - 1);
  std::size_t at = close + 2;
  constexpr int parent_field = 4, start_field = 22;  // proc(5); the state, after the name, is field 3
  for (int field = 3; field <= start_field && at < stat.size(); ++field) {
    const std::size_t end = std::min(stat.find(' ', at), stat.size());
    if (field == parent_field) std::from_chars(stat.data() + at, stat.data() + end, out.parent);
    if (field == start_field) out.start_time = stat.substr(at, end - at);
    at = end + 1;
  }
  return true;
}

}  // namespace

LaunchFacts launch_facts() {
  ProcessFacts process;
  int pid = ::getppid();
  for (int depth = 0; depth < 32 && pid > 1 && read_process(pid, process); ++depth) {
    if (process.name.starts_with("hydra_")) return {fmt::format("{}.{}", pid, process.start_time)};
    pid = process.parent;
  }
  return {};
}

Result<ResolvedConfig> resolve_config(const Environment& environment, const LaunchFacts& facts) {
  ResolvedConfig resolved;
  Config& config = resolved.config;
  FABRING_TRY(apply_settings(environment, config));
  for (const Setting& row : settings()) {
    const auto at = environment.find(row.name);
    if (at != environment.end() && !at->second.empty())
      resolved.sources[std::string(row.name)] = fmt::format("environment {}", row.name);
  }
  auto [launch, complete] = find_launch(environment, config, facts);
  resolved.launch = complete;
  for (const auto& [setting, source] : launch.sources) resolved.sources[setting] = source;
  config.rank = launch.rank;
  config.world_size = launch.world_size;
  config.local_rank = launch.local_rank;
  config.master_addr = launch.master_addr;
  config.master_named_by = launch.master_named_by;
  config.master_port = launch.master_port;
  config.master_port_shared = launch.master_port_shared;
  config.job_id = launch.job_id;
  return resolved;
}

Result<Config> Config::from_environment() {
  auto resolved = resolve_config(process_environment(), launch_facts());
  if (!resolved) return resolved.error();
  FABRING_TRY(resolved->launch);
  return std::move(resolved->config);
}

}  // namespace fabring

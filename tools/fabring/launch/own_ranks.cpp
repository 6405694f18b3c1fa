#include "tools/fabring/launch/own_ranks.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <thread>
#include <utility>

#include "runtime/base/named_thread.hpp"
#include "runtime/bootstrap/environment_config.hpp"
#include "tools/fabring/command.hpp"
#include "tools/fabring/common_options.hpp"
#include "tools/fabring/launch/local_job.hpp"
#include "tools/fabring/launch/place_note.hpp"
#include "tools/fabring/launch/rank_group.hpp"
#include "tools/fabring/launch/reserved_port.hpp"

namespace fabring::tools {
namespace {

// Before anything is started.
void tell_of_the_environment(const std::string& name, const Environment& environment) {
  if (const std::string jobs = warning_of_jobs_in_a_job(environment); !jobs.empty()) warn(name, jobs);
  if (environment.contains(std::string(mark_of_place))) return;  // it is the job's around this one
  if (const std::string note = place_note(environment); !note.empty()) complain(name, note);
}

}  // namespace

Status check_settings_of_ranks(int ranks) {
  Environment environment = process_environment();
  constexpr int any_port = 1;  // the real one is reserved when they start
  set_place({0, 0, ranks, "127.0.0.1", any_port, random_job_id()}, environment);
  const auto resolved = resolve_config(environment, LaunchFacts{});
  return resolved ? resolved->launch : resolved.error();
}

Result<int> run_own_ranks(const std::vector<std::string>& arguments, int ranks, const std::string& name, int nodes) {
  std::string self(4096, '\0');
  const ssize_t length = ::readlink("/proc/self/exe", self.data(), self.size());
  if (length <= 0) return Status(ErrorCode::unavailable, "cannot find the program's own file (/proc/self/exe)");
  self.resize(static_cast<std::size_t>(length));
  JobOptions job;
  job.ranks = ranks;
  job.nodes = nodes;
  job.name = name;
  job.code_if_killed = exit_could_not_run;
  job.command = {self};
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "-n" || argument == "--split-nodes") {
      ++i;
    } else if (!argument.starts_with("-n") && !argument.starts_with("--split-nodes=")) {
      job.command.push_back(argument);
    }
  }
  const Environment environment = process_environment();
  tell_of_the_environment(name, environment);
  return run_local_job(job, environment);
}

Result<int> run_own_ranks_as_threads(const std::function<int(const Environment& environment)>& rank, int ranks,
                                     const std::string& name, int nodes) {
  tell_of_the_environment(name, process_environment());
  const auto port = reserve_port(PortScope::loopback);
  if (!port) return port.error();
  const std::string job_id = random_job_id();
  std::vector<int> codes(static_cast<std::size_t>(ranks), exit_could_not_run);
  std::vector<std::thread> threads;
  for (int number = 0; number < ranks; ++number) {
    Environment environment = process_environment();
    set_place({number, number, ranks, "127.0.0.1", port->port, job_id}, environment);
    if (nodes > 1) environment["FABRING_HOST_ID"] = pretended_node(number, ranks, nodes);
    int& code = codes[static_cast<std::size_t>(number)];
    auto thread = start_thread("fabring-rank",
                               [&rank, &code, environment = std::move(environment)] { code = rank(environment); });
    if (!thread) {  // those that run wait for this one, and cannot be told
      std::_Exit(could_not_run(name, thread.error().with_prefix(fmt::format("rank {}: ", number)).to_string()));
    }
    threads.push_back(std::move(*thread));
  }
  for (std::thread& thread : threads) thread.join();
  const auto bad = std::find_if(codes.begin(), codes.end(), [](int code) { return code != exit_fine; });
  return bad == codes.end() ? exit_fine : *bad;
}

}  // namespace fabring::tools

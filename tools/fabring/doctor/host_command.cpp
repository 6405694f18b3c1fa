// `fabring doctor host`: gathers the facts of this host, runs every check on them, reports.

#include <fmt/format.h>
#include <sys/utsname.h>
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>

#include "tools/fabring/doctor/doctor_command.hpp"
#include "tools/fabring/doctor/host_checks.hpp"
#include "tools/fabring/doctor/report.hpp"
#include "topology/host_identity.hpp"

namespace fabring::tools {

Finding fine(std::string id, std::string what, std::string where) {
  return {std::move(id), Severity::ok, std::move(what), {}, {}, std::move(where)};
}
Finding note(std::string id, std::string what, std::string where) {
  return {std::move(id), Severity::info, std::move(what), {}, {}, std::move(where)};
}
Finding unchecked(std::string id, std::string what, std::string fix) {
  return {std::move(id), Severity::not_checked, std::move(what), {}, std::move(fix), {}};
}

const Topology* known_topology(const HostFacts& facts) {
  return facts.topology && facts.topology->has_value() ? &facts.topology->value() : nullptr;
}

std::string host_subject(const HostFacts& facts) {
  utsname kernel{};
  std::string text = host_name();
  if (::uname(&kernel) == 0) text += fmt::format(", {} {}", kernel.sysname, kernel.release);
  if (const Topology* topology = known_topology(facts))
    text += fmt::format(", {} of {} processors, {} GPU{}, {} NIC{}", topology->allowed_cpus.size(),
                        topology->cpus.size(), topology->gpus.size(), topology->gpus.size() == 1 ? "" : "s",
                        topology->nics.size(), topology->nics.size() == 1 ? "" : "s");
  return text;
}

Findings check_host(const HostFacts& facts) {
  Findings found;
  for (const auto check : {check_environment, check_limits, check_memory, check_processors, check_cards, check_network,
                           check_names, check_fabric, check_forks, check_gpus, check_container, check_clock})
    for (Finding& finding : check(facts)) found.push_back(std::move(finding));
  return found;
}

namespace {

int run(const ReportOptions& options) {
  Output out;
  if (!open_report(out, "host", options)) return exit_could_not_run;
  ::setenv("HWLOC_HIDE_ERRORS", "2", 0);
  const auto begin = std::chrono::steady_clock::now();
  const HostFacts facts =
      gather_host_facts("/", process_environment(), std::chrono::duration<double>(options.timeout_s));
  Report report{"host", host_subject(facts), check_host(facts), 0, facts.complete, {}};
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const int code = deliver(report, options, out);
  if (!facts.complete) {
    // A thread is still inside a name service or a driver: unwinding the process under it could hang or crash.
    std::fflush(nullptr);
    std::_Exit(code);
  }
  return code;
}

}  // namespace

void add_doctor_host(CLI::App& doctor, Session& session) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* command =
      doctor.add_subcommand("host", "This host: limits, memory, cards, network, providers, environment");
  add_report_options(*command, *options, 1.8,
                     "Which transport, interface and cards a job would take, and why: lists what is fine too");
  command->footer(
      "Needs no network, no other host and no root; as root it checks a little more.\n"
      "Example: fabring doctor host --json --strict");
  command->callback([options, &session] { session.exit_code = run(*options); });
}

}  // namespace fabring::tools

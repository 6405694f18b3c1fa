// `fabring doctor hang`: why a running job stands still: which rank or link, on which host. Asks like `fabring status`.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "tools/fabring/doctor/doctor_command.hpp"
#include "tools/fabring/doctor/hang_verdict.hpp"
#include "tools/fabring/doctor/report.hpp"
#include "tools/fabring/option_checks.hpp"
#include "tools/fabring/status/job_text.hpp"
#include "tools/fabring/stopwatch.hpp"

namespace fabring::tools {
namespace {

constexpr auto least_look = std::chrono::seconds(1);

struct HangOptions {
  std::string job;
  double after_s = 5;
  ReportOptions report;
};

std::string answered_subject(const JobPicture& job) {
  const auto answered =
      std::count_if(job.ranks.begin(), job.ranks.end(), [](const RankPicture& rank) { return rank.state.has_value(); });
  const std::string name = job.job_id.empty() ? job.tag.substr(0, 8) : job.job_id;
  // How many there are in all those who answer say.
  if (answered == 0) return fmt::format("job {}, no rank answered, {}", name, hosts_text(job));
  return fmt::format("job {}, {} of {} ranks answered, {}", name, answered, job.ranks.size(), hosts_text(job));
}

// How to name it: by its tag, and what else people know it by.
std::string named(const JobPicture& job) {
  const auto here =
      std::find_if(job.ranks.begin(), job.ranks.end(), [](const RankPicture& rank) { return rank.local; });
  std::string known_by = job.job_id;
  if (known_by.empty() && here != job.ranks.end()) known_by = fmt::format("rank {}: pid {}", here->rank, here->pid);
  return fmt::format("{} ({})", job.tag.substr(0, 8), known_by);
}

bool doubts_a_driver(const Findings& findings) {
  return count(findings, Severity::critical) == 0 &&
         std::any_of(findings.begin(), findings.end(), [](const Finding& one) { return one.id == "hang.driver"; });
}

// A thread that did not come round once, and for which nobody has waited for long, is asked for again.
Findings judge_twice(JobPicture& job, const HangOptions& options, std::chrono::steady_clock::time_point deadline) {
  const auto asked = std::chrono::steady_clock::now();
  const auto after = std::chrono::milliseconds(static_cast<std::int64_t>(options.after_s * 1000));
  const auto patience_ms = static_cast<std::uint64_t>(after.count());
  Findings findings = judge(job, patience_ms);
  if (!doubts_a_driver(findings)) return findings;
  if (asked + after + least_look > deadline) {
    for (Finding& one : findings)
      if (one.id == "hang.driver") {
        one.severity = Severity::not_checked;
        one.fix = "whether it lasts takes a --timeout that is longer than --after: ask again with more";
      }
    return findings;
  }
  std::this_thread::sleep_until(asked + after);
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  auto again = look_at_jobs(job.tag, left);
  if (!again || again->size() != 1) return findings;
  const std::set<Rank> held = held_since(job, again->front());
  job = std::move(again->front());
  return judge(job, patience_ms, held);
}

int run(const HangOptions& options) {
  Output out;
  if (!open_report(out, "hang", options.report)) return exit_could_not_run;
  const auto began = std::chrono::steady_clock::now();
  const auto limit = limit_of(options.report);
  auto jobs = look_at_jobs(options.job, limit / 2);
  if (!jobs) return could_not_run("doctor hang", jobs.error());
  const bool others_have_some = !jobs->empty();
  std::erase_if(*jobs, [](const JobPicture& job) { return job.foreign; });
  if (jobs->empty())
    return could_not_run("doctor hang", no_job_text(options.job, others_have_some || others_have_jobs(limit / 2)));
  if (jobs->size() > 1) {
    std::vector<std::string> names;
    for (const JobPicture& job : *jobs) names.push_back(named(job));
    return wrong_usage("doctor hang",
                       fmt::format("{} jobs have ranks here; name one: {}", jobs->size(), fmt::join(names, ", ")));
  }
  JobPicture& job = jobs->front();
  Report report;
  report.part = "hang";
  report.findings = judge_twice(job, options, began + limit);
  report.subject = answered_subject(job);
  report.picture = job_text(job);
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return deliver(report, options.report, out);
}

}  // namespace

void add_doctor_hang(CLI::App& doctor, Session& session) {
  auto options = std::make_shared<HangOptions>();
  CLI::App* command = doctor.add_subcommand("hang", "Why a running job stands still: which rank, which link");
  command->add_option("job", options->job, "A job by FABRING_JOB_ID, by its tag, or by a rank's pid")->type_name("JOB");
  command->add_option("--after", options->after_s, "Seconds without any progress that count as standing still")
      ->check(between(0.0, 86400.0))
      ->capture_default_str()
      ->type_name("S");
  add_report_options(*command, options->report, 12,
                     "Why a rank counts as standing still or not: lists what is fine too");
  command->footer(
      "Needs no set-up: it asks the ranks of this host (same user) over unix sockets, and through them the others.\n"
      "Exit codes: 0 no cause that is certain, 1 a cause was named, 2 usage, 3 no job, or none that can be asked.\n"
      "Example: fabring doctor hang");
  command->callback([options, &session] { session.exit_code = run(*options); });
}

}  // namespace fabring::tools

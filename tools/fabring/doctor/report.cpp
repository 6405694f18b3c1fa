#include "tools/fabring/doctor/report.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <array>
#include <nlohmann/json.hpp>

#include "tools/fabring/command.hpp"
#include "tools/fabring/wrapped_text.hpp"

namespace fabring::tools {
namespace {

constexpr std::size_t report_columns = 80;
constexpr std::array worst_first{Severity::critical, Severity::warning, Severity::not_checked, Severity::info,
                                 Severity::ok};

std::string_view verdict(const Report& report) {
  if (count(report.findings, Severity::critical) > 0) return "critical";
  if (!report.complete) return "incomplete";
  if (count(report.findings, Severity::warning) > 0) return "warning";
  const bool something = count(report.findings, Severity::ok) + count(report.findings, Severity::info) > 0;
  return something || report.findings.empty() ? "ok" : "not checked";
}

// A severity in capitals stands out without colour; what is fine does not shout.
std::string label(Severity severity) {
  std::string text(name(severity));
  if (severity >= Severity::warning)
    for (char& letter : text) letter = static_cast<char>(letter - 'a' + 'A');
  return text;
}

constexpr std::size_t margin = 13;

std::string paragraph(std::string_view head, std::string_view text) {
  return text.empty() ? std::string() : wrapped(fmt::format("{:<13}{}", head, text), report_columns, margin) + "\n";
}

std::string block(const Finding& finding) {
  const bool named = finding.where.empty() || finding.what.starts_with(finding.where);
  const std::string place = named ? "" : finding.where + ": ";
  std::string text = paragraph(label(finding.severity), place + finding.what + " [" + finding.id + "]");
  text += paragraph("    why", finding.why);
  text += paragraph("    fix", finding.fix);
  return text;
}

std::string plural(std::size_t number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

std::string summary(const Report& report) {
  const Findings& all = report.findings;
  return fmt::format("{} critical, {}, {} not checked, {} fine. {:.2f} s{}\n", count(all, Severity::critical),
                     plural(count(all, Severity::warning), "warning"), count(all, Severity::not_checked),
                     count(all, Severity::ok) + count(all, Severity::info), report.seconds,
                     report.complete ? "" : "; not all was looked at, see above");
}

}  // namespace

void add_report_options(CLI::App& command, ReportOptions& options, double timeout_s, const std::string& explain) {
  options.timeout_s = timeout_s;
  add_common_options(command, options,
                     {.json = "As JSON (docs/doctor.md has the schema)",
                      .explain = explain,
                      .timeout = "Time after which what is left counts as not checked"});
  command.add_flag("--strict", options.strict, "A warning is a failure too: exit code 1");
  command.add_flag("--all", options.all, "List what is fine too");
}

std::string report_text(const Report& report, bool all) {
  std::string text =
      wrapped(fmt::format("fabring doctor {}: {}", report.part, report.subject), report_columns, 4) + "\n\n";
  if (!report.picture.empty()) text += report.picture + "\n";
  for (const Severity severity : worst_first) {
    std::string blocks;
    for (const Finding& finding : report.findings) {
      if (finding.severity != severity) continue;
      if (severity == Severity::ok && !all) continue;
      blocks += block(finding);
      if (severity >= Severity::warning) blocks += '\n';
    }
    if (!blocks.empty() && severity < Severity::warning) blocks += '\n';
    text += blocks;
  }
  return text + summary(report);
}

nlohmann::ordered_json report_json(const Report& report) {
  nlohmann::ordered_json counts, findings = nlohmann::ordered_json::array();
  for (const Severity severity : worst_first) {
    std::string key(name(severity));
    std::replace(key.begin(), key.end(), ' ', '_');
    counts[key] = count(report.findings, severity);
  }
  for (const Finding& finding : report.findings) {
    std::string severity(name(finding.severity));
    std::replace(severity.begin(), severity.end(), ' ', '_');
    findings.push_back({{"id", finding.id},
                        {"severity", severity},
                        {"where", finding.where},
                        {"what", finding.what},
                        {"why", finding.why},
                        {"fix", finding.fix}});
  }
  std::string word(verdict(report));
  std::replace(word.begin(), word.end(), ' ', '_');
  return {{"schema", 1},      {"part", report.part},         {"subject", report.subject},
          {"verdict", word},  {"complete", report.complete}, {"seconds", report.seconds},
          {"counts", counts}, {"findings", findings}};
}

int exit_code(const Report& report, bool strict) {
  if (count(report.findings, Severity::critical) > 0) return exit_wrong;
  if (!report.complete || verdict(report) == "not checked") return exit_could_not_run;
  return strict && count(report.findings, Severity::warning) > 0 ? exit_wrong : exit_fine;
}

bool open_report(Output& out, const std::string& part, const ReportOptions& options) {
  const Status status = out.open(options.output);
  if (!status.ok()) complain("doctor " + part, status.message());
  return status.ok();
}

int deliver(const Report& report, const nlohmann::ordered_json& json, const ReportOptions& options, Output& out) {
  out.write(options.json ? json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n"
                         : report_text(report, options.all || options.explain));
  if (const Status status = out.finish(); !status.ok()) return could_not_run("doctor " + report.part, status);
  return exit_code(report, options.strict);
}

int deliver(const Report& report, const ReportOptions& options, Output& out) {
  return deliver(report, report_json(report), options, out);
}

}  // namespace fabring::tools

#pragma once
// Report: the findings of one part of `fabring doctor`, printed for people (80 columns, no colour, the worst first), as
// JSON (schema in docs/doctor.md), and as an exit code. Every part delivers through here, so that all of them read
// alike.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "tools/fabring/common_options.hpp"
#include "tools/fabring/doctor/finding.hpp"
#include "tools/fabring/output.hpp"

namespace CLI {
class App;
}

namespace fabring::tools {

struct Report {
  std::string part;     ///< "host", "net", ...
  std::string subject;  ///< what was examined, one line: "vm, Linux 6.1, 2 cores, 1 NIC"
  Findings findings;    ///< in the order of the checks
  double seconds = 0;
  bool complete = true;  ///< false: time ran out, or it was too much, before all was looked at (`not_checked` above)
  std::string picture;   ///< text to print between the subject and the findings (a matrix, a table); not in the JSON
};

/// What every part of doctor takes on the command line.
struct ReportOptions : CommonOptions {
  bool strict = false;
  bool all = false;  ///< list what is fine too
};

/// The common options, --strict and --all; --timeout with its default, and what --explain says here. It lists what is
/// fine too, since that is where the choices and their reasons are.
void add_report_options(CLI::App& command, ReportOptions& options, double timeout_s, const std::string& explain);

/// For people. What is fine is one line that counts it, or with `all` one line each.
std::string report_text(const Report& report, bool all);

/// {"part", "subject", "seconds", "complete", "verdict", "counts", "findings": [...]}; a part may add fields of its
/// own.
nlohmann::ordered_json report_json(const Report& report);

/// 1: a critical finding, or with `strict` a warning. 3: no critical finding, but not all was looked at, or nothing at
/// all could be checked. Else 0.
int exit_code(const Report& report, bool strict);

/// Opens what the report will be written to, before anything is examined; false with a line on stderr where that
/// cannot be.
bool open_report(Output& out, const std::string& part, const ReportOptions& options);

/// Prints as the options say and returns the exit code; 3 with a line on stderr where the output cannot be written.
/// `json` is report_json(report), with what the part added.
int deliver(const Report& report, const nlohmann::ordered_json& json, const ReportOptions& options, Output& out);
int deliver(const Report& report, const ReportOptions& options, Output& out);

}  // namespace fabring::tools

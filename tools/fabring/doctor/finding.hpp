#pragma once
// Finding: one thing that a part of `fabring doctor` has looked at, as a value: what was seen, why it matters and what
// to do. Checks return findings and print nothing; report.hpp prints them. "Not checked" is a severity of its own, so
// that what could not be looked at can never be taken for fine.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fabring::tools {

enum class Severity : std::uint8_t {
  ok,           ///< looked at, and fine
  info,         ///< worth knowing; nothing to do
  not_checked,  ///< could not be looked at; `what` says why
  warning,      ///< works, but slower or less surely than it could
  critical,     ///< a job will fail or hang
};

/// "ok", "info", "not checked", "warning", "critical"
constexpr std::string_view name(Severity severity) {
  switch (severity) {
    case Severity::ok:
      return "ok";
    case Severity::info:
      return "info";
    case Severity::not_checked:
      return "not checked";
    case Severity::warning:
      return "warning";
    case Severity::critical:
      break;
  }
  return "critical";
}

struct Finding {
  std::string id;  ///< stable, for scripts: the family and the thing, "limits.memlock", "net.refused"
  Severity severity = Severity::ok;
  std::string what;   ///< what was seen, with its figures: "locked memory is limited to 64 KiB"
  std::string why;    ///< why it matters; empty where nothing is wrong
  std::string fix;    ///< what to do, with the command where there is one; empty where nothing is wrong
  std::string where;  ///< interface, rank or pair that it is about: "eth0", "rank 3 (host b)"; empty: this host
};

using Findings = std::vector<Finding>;

/// How many have this severity.
inline std::size_t count(const Findings& findings, Severity severity) {
  return static_cast<std::size_t>(std::count_if(findings.begin(), findings.end(),
                                                [&](const Finding& finding) { return finding.severity == severity; }));
}

}  // namespace fabring::tools

#include "tools/fabring/perf/engine_report.hpp"

#include <algorithm>
#include <string_view>

namespace fabring::tools {

std::vector<TransportLine> transport_lines(const std::vector<std::string>& report) {
  std::vector<TransportLine> found;
  for (const std::string& line : report) {
    constexpr std::string_view label = "transport ";
    if (!line.starts_with(label)) continue;
    const std::size_t colon = std::min(line.find(": "), line.size());
    found.push_back({line.substr(label.size(), colon - label.size()), line.substr(std::min(colon + 2, line.size()))});
  }
  return found;
}

std::string transports_in_use(const Engine& engine) {
  std::string names;
  for (const TransportLine& each : transport_lines(engine.report())) names += (names.empty() ? "" : "+") + each.name;
  return names.empty() ? engine.config().transport : names;
}

}  // namespace fabring::tools

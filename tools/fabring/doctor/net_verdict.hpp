#pragma once
// What the probes of all ranks say together: who cannot reach whom and how, both directions side by side, and in what
// the hosts differ. Many ranks of two hosts that fail alike are one finding; so is a host that nobody reaches. Pure.

#include <optional>
#include <vector>

#include "tools/fabring/doctor/finding.hpp"
#include "tools/fabring/doctor/net_facts.hpp"

namespace fabring::tools {

struct NetPicture {
  std::vector<std::optional<NetFacts>> ranks;             ///< by rank; nothing: it has not told
  std::vector<std::optional<std::vector<Probe>>> probes;  ///< by rank; nothing: it has not told
};

Findings judge(const NetPicture& picture);

}  // namespace fabring::tools

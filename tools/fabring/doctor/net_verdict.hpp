#pragma once
// What the probes of all ranks say together: who cannot reach whom and how, both directions side by side, and in what
// the hosts differ. Many ranks of two hosts that fail alike are one finding; so is a host that nobody reaches. Pure.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/fabring/doctor/finding.hpp"
#include "tools/fabring/doctor/net_facts.hpp"

namespace fabring::tools {

struct NetPicture {
  std::vector<std::optional<NetFacts>> ranks;             ///< by rank; nothing: it has not told
  std::vector<std::optional<std::vector<Probe>>> probes;  ///< by rank; nothing: it has not told
  std::size_t bytes_of_doors_untold = 0;  ///< so many that the ranks were not told them, and nobody has called

  const std::string& host_key(Rank rank) const;  ///< equal for ranks of one host; empty: not known
  std::string host(Rank rank) const;             ///< its name
  std::string who(Rank rank) const;              ///< "rank 1 (host b)"
  const Door* door(Rank rank, std::uint8_t number) const;
  /// Of every address: the hosts that have it, by their key, and their ranks. There should be one.
  std::map<std::string, std::map<std::string, std::vector<Rank>>> holders() const;
};

Findings judge(const NetPicture& picture);

}  // namespace fabring::tools

#include "runtime/bootstrap/common_address.hpp"

#include <fmt/format.h>

#include <map>
#include <set>
#include <tuple>

#include "runtime/base/rank_list.hpp"

namespace fabring {

std::string common_address(const std::vector<WayToMaster>& ways) {
  struct Use {
    int can = 0, came = 0;
  };
  std::map<std::string, Use> uses;
  for (const WayToMaster& way : ways) {
    std::set<std::string> usable(way.others.begin(), way.others.end());
    usable.insert(way.came_by);
    for (const std::string& address : usable) ++uses[address].can;
    ++uses[way.came_by].came;
  }
  const auto rank_of = [&](const std::string& address) {
    const Use& use = uses[address];
    return std::make_tuple(use.can, use.came, address.find(':') == std::string::npos);
  };
  std::string best;
  for (const WayToMaster& way : ways)
    if (way.came_by.find('%') == std::string::npos && (best.empty() || rank_of(way.came_by) > rank_of(best)))
      best = way.came_by;
  return best;
}

std::string different_ways(const std::vector<WayToMaster>& ways, const std::vector<Rank>& ranks) {
  std::map<std::string, std::vector<Rank>> by_address;
  for (std::size_t i = 0; i < ways.size() && i < ranks.size(); ++i) by_address[ways[i].came_by].push_back(ranks[i]);
  if (by_address.size() < 2) return {};
  std::string text;
  for (const auto& [address, which] : by_address)
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", address, rank_list(which));
  return text;
}

}  // namespace fabring

#include "tools/fabring/doctor/finding_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "runtime/base/rank_list.hpp"
#include "tools/fabring/status/job_text.hpp"

namespace fabring::tools {

namespace {
constexpr std::size_t most_findings_of_a_kind = 8;
}

void FindingList::add(Finding finding) {
  const auto alike = std::count_if(found_.begin(), found_.end(), [&](const Finding& one) {
    return one.id == finding.id && one.severity == finding.severity;
  });
  if (static_cast<std::size_t>(alike) < most_findings_of_a_kind)
    found_.push_back(std::move(finding));
  else
    others_[{finding.id, finding.severity}].push_back(std::move(finding));
}

void FindingList::add_past(Finding finding) {
  const std::size_t before = found_.size();
  add(std::move(finding));
  past_ += found_.size() - before;
}

Findings FindingList::take() {
  for (const auto& [kind, findings] : others_) {
    std::set<Rank> ranks;
    std::size_t unplaced = 0;
    for (const Finding& one : findings) {
      const auto rank = std::find_if(job_.ranks.begin(), job_.ranks.end(),
                                     [&](const RankPicture& each) { return who(each) == one.where; });
      rank == job_.ranks.end() ? static_cast<void>(++unplaced) : static_cast<void>(ranks.insert(rank->rank));
    }
    std::string what = ranks.empty() ? "" : "the same of " + rank_list(std::vector<Rank>(ranks.begin(), ranks.end()));
    if (unplaced > 0) what += fmt::format("{}{} more like these", what.empty() ? "" : ", and ", unplaced);
    found_.push_back({kind.first, kind.second, what, findings.front().why, findings.front().fix, ""});
  }
  return std::move(found_);
}

}  // namespace fabring::tools

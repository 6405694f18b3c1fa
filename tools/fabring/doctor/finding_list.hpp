#pragma once
// FindingList: findings about the ranks of a job. Of a large job many are alike: a few of each kind are told one by
// one, and of the others who they are.

#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "tools/fabring/doctor/finding.hpp"
#include "tools/fabring/status/job_picture.hpp"

namespace fabring::tools {

class FindingList {
 public:
  /// `job` must stay.
  explicit FindingList(const JobPicture& job) : job_(job) {}

  void add(Finding finding);
  /// About what is over, and explains nothing that stands still now.
  void add_past(Finding finding);

  /// Is there a cause that is certain?
  bool named() const { return count(found_, Severity::critical) > 0; }
  /// Is there nothing but what is over?
  bool only_past() const { return found_.size() == past_; }

  /// All, in their order, and then who the others are.
  Findings take();

 private:
  const JobPicture& job_;
  Findings found_;
  std::map<std::pair<std::string, Severity>, Findings> others_;  // alike, beyond the most that are told
  std::size_t past_ = 0;                                         // of found_
};

}  // namespace fabring::tools

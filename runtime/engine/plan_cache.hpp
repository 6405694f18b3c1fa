#pragma once
// PlanCache: the plans that one rank has used on a communicator, by what they depend on. A plan is built once, at its
// first use; those with a root are many where every rank is the root in turn, so only so many of them are kept.

#include <compare>
#include <deque>
#include <map>
#include <memory>

#include "collectives/algorithms.hpp"
#include "runtime/engine/call.hpp"
#include "runtime/engine/prepared_plan.hpp"

namespace fabring {

class PlanCache {
 public:
  static constexpr std::size_t most_rooted = 128;

  /// The plan for this call. Errors: unsupported, with the reason.
  Result<std::shared_ptr<const PreparedPlan>> find_or_make(const Call& call, Rank self,
                                                           const std::vector<int>& node_of);
  std::size_t size() const { return plans_.size(); }

 private:
  struct Key {
    Collective collective;
    Algorithm algorithm;
    bool average;
    Rank root;
    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, std::shared_ptr<const PreparedPlan>> plans_;
  std::deque<Key> rooted_;  // oldest first
};

}  // namespace fabring

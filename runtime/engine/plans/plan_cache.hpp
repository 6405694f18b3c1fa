#pragma once
// PlanCache: the plans that one rank has used on a communicator, by what they depend on. A plan is built once, at its
// first use; those with a root are many where every rank is the root in turn, so only so many of them are kept. Those
// of messages are small: one to and one from every rank, as an alltoall of sends and receives takes in each round.

#include <compare>
#include <deque>
#include <map>
#include <memory>

#include "collectives/algorithms.hpp"
#include "runtime/engine/call/call.hpp"
#include "runtime/engine/plans/prepared_plan.hpp"

namespace fabring {

class PlanCache {
 public:
  static constexpr std::size_t most_rooted = 128;
  static constexpr std::size_t most_messages = 8192;  // 1.2 KB each

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
  /// Makes room, if this would be one too many of its kind.
  void count(std::deque<Key>& kind, std::size_t most, const Key& key);

  std::map<Key, std::shared_ptr<const PreparedPlan>> plans_;
  std::deque<Key> rooted_, messages_;  // oldest first
};

}  // namespace fabring

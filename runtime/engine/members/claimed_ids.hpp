#pragma once
// ClaimedIds: the numbers that are taken here for communicators which are still being made. The ranks of a split agree
// on one: each proposes a number that is free where it is, the highest becomes that of all, and whoever has it already
// for something else makes all of them try again. Which numbers communicators have, or had, the caller knows
// (`is_used`). Pure; the caller locks.

#include <algorithm>
#include <cstdint>
#include <set>

namespace fabring {

class ClaimedIds {
 public:
  bool contains(std::uint32_t id) const { return ids_.contains(id); }
  /// False: it is claimed already.
  bool claim(std::uint32_t id) { return ids_.insert(id).second; }
  /// What was claimed is made now, or is not needed.
  void give_back(std::uint32_t id) { ids_.erase(id); }

  /// Claims a number that is free here. Splits that take their numbers in another order on every rank would do so
  /// again: from the second attempt on each parent keeps to a class of numbers, and these are more after every one that
  /// `failed`.
  template <class IsUsed>
  std::uint32_t propose(std::uint32_t at_least, std::uint32_t parent, unsigned failed, IsUsed&& is_used) {
    const std::uint32_t classes = std::uint32_t{1} << std::min(failed, 16u);
    const std::uint32_t own = parent * 2654435769u >> 8;
    std::uint32_t id = std::max(next_, at_least);
    id += (own - id) & (classes - 1);
    while (ids_.contains(id) || is_used(id)) id += classes;
    ids_.insert(id);
    next_ = id + 1;
    return id;
  }

  /// Instead of what was `proposed` here, what all have agreed on; false if it is not free.
  template <class IsUsed>
  bool claim_agreed(std::uint32_t proposed, std::uint32_t agreed, IsUsed&& is_used) {
    ids_.erase(proposed);
    next_ = std::max(next_, agreed + 1);
    return !is_used(agreed) && claim(agreed);
  }

 private:
  std::uint32_t next_ = 2;  // 1 is the world's
  std::set<std::uint32_t> ids_;
};

}  // namespace fabring

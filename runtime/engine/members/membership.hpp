#pragma once
// MemberList: the ranks of which a subgroup was made, as one of them tells another; SubgroupLists: which were made here
// and which lists wait for that.
//
// Subgroups are made by their members alone, each by the list that its caller gives: nothing is exchanged, so the lists
// may differ. Each member therefore tells its list to the next one in it, by the control plane. If any two lists
// differ, so do those of some rank and the next in its list, as otherwise the one list would lead through all members.
// No rank makes two of one number, so a list is about the one that was made here, or will be.

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fabring/types.hpp"
#include "runtime/base/number_set.hpp"

namespace fabring {

class CommunicatorCore;

struct MemberList {
  static constexpr char mark = 'm';                  ///< before it, in a letter
  static constexpr std::size_t most_members = 8192;  ///< of longer ones nothing is told

  Rank from = -1;
  std::uint32_t id = 0;
  std::vector<Rank> members;  ///< ranks of the world

  std::string encode() const;
  static std::optional<MemberList> decode(Rank from, std::string_view bytes, int world_size);
};

/// Tells lists of ranks apart; always odd.
std::uint64_t members_digest(const std::vector<Rank>& members);
/// Instead of a digest: of a subgroup that is gone too long.
constexpr std::uint64_t members_forgotten = 2;

/// Any thread.
class SubgroupLists {
 public:
  static constexpr std::size_t most_gone = 4096;  ///< whose members are remembered
  static constexpr std::size_t most_waiting = 4096;
  static constexpr std::size_t most_waiting_members = std::size_t{1} << 20;  ///< of all of them
  /// What others have told of it so far.
  std::vector<MemberList> made(const std::shared_ptr<const CommunicatorCore>& subgroup);
  /// The subgroup that it is about. Null: that is gone, or is not made yet, and the list is kept until it is.
  std::shared_ptr<const CommunicatorCore> heard(const MemberList& list);
  /// The members of the one of that id that was made here; 0: of none, or it is gone too long.
  std::uint64_t digest_of_made(std::uint32_t id) const;

 private:
  void keep(const MemberList& list);

  struct Made {
    std::weak_ptr<const CommunicatorCore> subgroup;
    std::uint64_t digest = 0;
  };
  mutable std::mutex mutex_;
  std::map<std::uint32_t, Made> made_;  ///< here, by id
  NumberSet gone_;                      ///< likewise, no more in made_
  std::deque<std::pair<std::uint32_t, std::uint64_t>> digests_of_gone_;
  std::deque<MemberList> waiting_;  ///< as they came
  std::size_t waiting_members_ = 0;
};

}  // namespace fabring

#pragma once
// MemberList: the ranks of which a subgroup was made, as one of them tells another; SubgroupLists: which were made here
// and which lists wait for that.
//
// Subgroups are made by their members alone, each by the list that its caller gives: nothing is exchanged, so the lists
// may differ. Each member therefore tells its list to the next one in it, by the control plane. If any two lists
// differ, so do those of some rank and the next in its list, as otherwise the one list would lead through all members.
//
// Numbers are used again: a list that comes late must not be compared with that of a later subgroup. So both say how
// many of that number their rank has made.

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fabring/types.hpp"

namespace fabring {

class CommunicatorCore;

struct MemberList {
  static constexpr char mark = 'm';                  ///< before it, in a letter
  static constexpr std::size_t most_members = 8192;  ///< of longer ones nothing is told

  Rank from = -1;
  std::uint32_t id = 0;
  std::uint32_t generation = 0;  ///< how many subgroups of that id `from` has made
  std::vector<Rank> members;     ///< ranks of the world

  std::string encode() const;
  static std::optional<MemberList> decode(Rank from, std::string_view bytes, int world_size);
};

/// Any thread.
class SubgroupLists {
 public:
  static constexpr std::size_t most_waiting = 4096;
  static constexpr std::size_t most_waiting_members = std::size_t{1} << 20;  ///< of all of them
  struct Made {
    std::uint32_t generation;         ///< how many of its id this rank has made
    std::vector<MemberList> waiting;  ///< what others have told of that one
  };
  Made made(const std::shared_ptr<const CommunicatorCore>& subgroup);
  /// The subgroup that it is about. Null: that is gone, or is not made yet, and the list is kept until it is.
  std::shared_ptr<const CommunicatorCore> heard(const MemberList& list);

 private:
  void keep(const MemberList& list);

  struct Last {
    std::uint32_t generation = 0;
    std::weak_ptr<const CommunicatorCore> subgroup;
  };
  std::mutex mutex_;
  std::map<std::uint32_t, Last> last_;  ///< made here, of each id
  std::deque<MemberList> waiting_;      ///< as they came
  std::size_t waiting_members_ = 0;
};

}  // namespace fabring

#pragma once
// MembershipCheck: do the members of a subgroup mean the same one? It tells this rank's lists of members, compares
// those that others tell, and reports to the control plane what differs.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "fabring/types.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/control/control_plane.hpp"
#include "runtime/engine/members/membership.hpp"

namespace fabring {

class CommunicatorCore;

class MembershipCheck {
 public:
  /// `control` may be null, in a world of one: then there is nobody to differ. `who` names a rank of the world for
  /// people.
  MembershipCheck(Rank self, int world_size, ControlPlane* control, const Clock& clock,
                  std::function<std::string(Rank)> who);

  // Any thread.
  /// This rank has made it: the next member hears of whom.
  void made(const std::shared_ptr<const CommunicatorCore>& subgroup);
  /// The letter of another member, without its mark.
  void heard(Rank from, std::string_view told);
  /// As SubgroupLists says.
  std::uint64_t digest_of_made(std::uint32_t id) const { return lists_.digest_of_made(id); }

  // The driver.
  /// Should this wait, as members of a subgroup may turn out to have given different lists?
  bool hold_back(CommunicatorCore& communicator, const Failure& failure) const;
  /// The same of a message of this rank that fits no plan.
  bool doubt(CommunicatorCore& communicator, Rank world_rank) const;
  /// Reports what was held back for long enough.
  void release(CommunicatorCore& communicator, Time now) const;

 private:
  void compare(const CommunicatorCore& communicator, const MemberList& list) const;

  const Rank self_;
  const int world_size_;
  ControlPlane* const control_;
  const Clock& clock_;
  const std::function<std::string(Rank)> who_;
  SubgroupLists lists_;
};

}  // namespace fabring

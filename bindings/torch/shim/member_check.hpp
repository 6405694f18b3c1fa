#pragma once
// MemberCheck: do all ranks that make a group name the same ones? Where lists differ, ranks may not even agree who rank
// 0 of the group is. Each leaves its own in the store, and for the next rank in it: of any two lists that differ, one
// rank and the next in its list have such, and the later of the two finds the other's. Who finds one does not make its
// group and says so in the store, where those look who would make it too; groups of those who have looked before are
// ended.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "decision.hpp"
#include "group.hpp"
#include "places.hpp"

namespace fabring_torch {

class MemberCheck {
 public:
  /// Keeps the request by reference. With less than two ranks it does nothing.
  MemberCheck(const GroupRequest& request, const std::vector<Place>& places);
  /// Before look(): `decision` is this rank's if it is rank 0 of its list, else one without a number.
  void put(const Decision& decision) const;
  /// Throws if this rank's group cannot be, as far as others have said by now.
  void look() const;
  /// `whose`: who gave the other list, for people.
  [[noreturn]] void raise_unlike(const Decision& theirs, const std::string& whose) const;

 private:
  std::string list_of(std::int64_t rank) const;
  std::string lists_for(std::int64_t rank) const;
  std::string refusals() const;
  std::optional<std::string> found(const std::string& key) const;
  void append(const std::string& key, const std::string& entry) const;
  std::vector<std::string> all(const std::string& key) const;
  void compare(const std::string& list, const std::string& whose) const;
  void end_group_of(const Decision& theirs, const std::string& text) const;
  [[noreturn]] void give_up(const std::string& text) const;

  const GroupRequest& request_;
  std::int64_t self_ = 0, next_ = 0;  // ranks of the job
  std::string prefix_;                // empty: there is nothing to compare
};

}  // namespace fabring_torch

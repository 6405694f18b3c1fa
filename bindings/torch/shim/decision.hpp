#pragma once
// Decision: what rank 0 of a group tells the others about it by the store.

#include <cstdint>
#include <string>

namespace fabring_torch {

struct GroupRequest;

/// What the group's rank 0 decides, alone, since it alone may see an engine that is about to go. The token names an
/// engine; with a number the group is a subgroup of one that exists, without it all make a new one. The members are
/// said because torch numbers groups by the order of the calls: ranks that name different ones would meet all the same.
/// What a new engine's job is called is said because its ranks turn each other away where they call it differently, and
/// nothing makes all environments say the same.
struct Decision {
  std::string token;
  std::uint32_t number = 0;
  std::string members;
  std::string job = {};  ///< of a new engine; empty: it has no name

  std::string encode() const;
  static Decision decode(const std::string& all);  ///< throws
};

/// The ranks of a request, as people and Decision::members have them.
std::string members_text(const GroupRequest& request);

/// A name that nobody had before.
std::string random_token();

}  // namespace fabring_torch

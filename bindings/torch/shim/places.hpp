#pragma once
// Place: where in the store the members of a group that is a part of an engine meet. Members have the engine in common
// and with it a token that no life before had; how often this rank opened the group in it tells lives of the group
// apart.

#include <cstdint>
#include <string>
#include <vector>

#include "group.hpp"
#include "store_keys.hpp"

namespace fabring_torch {

struct Place {
  std::string token;  ///< of the engine
  std::int64_t number = 0;
  StoreKeys keys;
};

/// One for each living engine that has all ranks of the group; usually there is one, or none for a job's first group.
/// To be called once for every group that is opened.
std::vector<Place> places(const GroupRequest& request);

}  // namespace fabring_torch

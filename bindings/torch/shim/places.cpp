#include "places.hpp"

#include <c10/util/StringUtil.h>

#include "engine.hpp"

namespace fabring_torch {

std::vector<Place> places(const GroupRequest& request) {
  std::vector<Place> found;
  if (request.global_ranks.empty()) return found;
  // Not the number in the group: ranks that disagree about who is in it would have the same one.
  const std::int64_t self = request.global_ranks[static_cast<std::size_t>(request.rank)];
  for (const std::string& token : SharedEngine::tokens(request.global_ranks)) {
    const std::int64_t number =
        request.keys_are_new ? 0 : request.store->add(c10::str("fabring/opened/", token, "/", self), 1);
    found.push_back({token, number, StoreKeys(request.store, c10::str("fabring/", token, "/", number, "/"))});
  }
  return found;
}

}  // namespace fabring_torch

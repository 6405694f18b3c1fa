#include "first_rank.hpp"

#include <c10/util/StringUtil.h>

#include <exception>
#include <utility>

#include "engine.hpp"
#include "group.hpp"

namespace fabring_torch {

FirstRank::FirstRank(const GroupRequest& request, const std::vector<Place>& places)
    : request_(request), token_(request.rank == 0 || places.empty() ? "" : places.front().token) {}

FirstRank::~FirstRank() { fabring_comm_free(pair_); }

void FirstRank::meet() {
  met_ = true;
  const auto engine = SharedEngine::find(token_);
  if (!engine) return;
  const auto& ranks = request_.global_ranks;
  try {
    pair_ = engine->subgroup({ranks[0], ranks[static_cast<std::size_t>(request_.rank)]}, engine->take_number(),
                             "the first rank of group " + request_.name);
  } catch (const std::exception&) {  // the engine has left: whoever waits here hears that elsewhere
  }
}

void FirstRank::look() {
  if (token_.empty()) return;
  if (!met_) meet();
  fabring_error error = FABRING_ERROR_INIT;
  if (pair_ == nullptr || fabring_comm_health(pair_, &error) != FABRING_STATUS_PEER_LOST) return;
  if (!std::exchange(lost_, true)) return;
  throw FirstRankLost(
      {"fabring", __FILE__, 0},
      c10::str("fabring: peer_lost: group '", request_.name, "' cannot be made, as its first rank, rank ",
               request_.global_ranks[0], " of the job, is lost: ", error.message,
               "; make one of the ranks that are left (fabring.torch.lost_ranks() names the others)"));
}

}  // namespace fabring_torch

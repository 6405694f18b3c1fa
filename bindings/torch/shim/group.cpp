#include "group.hpp"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <chrono>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>

#include "bindings/whole_text.hpp"
#include "config.hpp"
#include "engine.hpp"
#include "failure.hpp"
#include "first_rank.hpp"
#include "limit.hpp"
#include "lost_store.hpp"
#include "member_check.hpp"
#include "places.hpp"
#include "polling.hpp"
#include "roll_call.hpp"
#include "store_keys.hpp"

namespace fabring_torch {
namespace {

struct Living {
  std::mutex mutex;
  std::set<Group*> groups;
};

Living& living_groups() { return of_process<Living>(); }

Decision decide(const GroupRequest& request, const std::vector<Place>& in_engines) {
  for (const Place& place : in_engines)
    if (const auto engine = SharedEngine::find(place.token))
      return {place.token, engine->take_number(), members_text(request)};
  return {random_token(), 0, members_text(request), job_name()};
}

// One that cannot be read: this rank answers the others all the same, and they hear why it cannot make its engine.
Limit limit_of(const GroupRequest& request, bool makes_engine) {
  try {
    return rendezvous_limit(request.timeout);
  } catch (const c10::Error&) {
    if (!makes_engine) throw;
    return {request.timeout, false};
  }
}

/// The ways by which the members of a group hear of each other before it is made.
struct Ways {
  explicit Ways(const GroupRequest& request)
      : in_engines(places(request)),
        limit(limit_of(request, in_engines.empty())),
        check(request, in_engines),
        roll_call(request),
        first(request, in_engines),
        polling(limit.time, [this] {
          check.look();
          first.look();
          roll_call.look();
        }) {}

  const std::vector<Place> in_engines;
  const Limit limit;
  const MemberCheck check;
  RollCall roll_call;
  FirstRank first;
  Polling polling;
};

/// What rank 0 does: all others hear what it has decided.
Decision lead(const GroupRequest& request, Ways& ways) {
  const Decision decision = decide(request, ways.in_engines);
  ways.check.put(decision);
  if (decision.number == 0) {
    ways.roll_call.hold(decision, ways.limit, ways.polling);
  } else {
    for (const Place& place : ways.in_engines)
      if (place.token == decision.token) place.keys.put("engine", decision.encode());
    ways.roll_call.tell(decision);
  }
  return decision;
}

/// What every other rank does.
Decision follow(const GroupRequest& request, Ways& ways) {
  constexpr std::chrono::milliseconds time_for_bad_news(2000);  // rank 0 gives up at the limit, and then says why
  ways.check.put({"-", 0, members_text(request)});
  do {
    for (const Place& place : ways.in_engines)
      if (place.keys.wait("engine", std::chrono::milliseconds(0))) return Decision::decode(place.keys.get("engine"));
    if (const auto decision = ways.roll_call.answer(ways.polling)) return *decision;
  } while (ways.polling.again() || (ways.roll_call.has_answered() && ways.polling.extend(time_for_bad_news)));
  raise_lost(c10::str("fabring: group '", request.name, "': rank 0 of the group did not come within ",
                      ways.limit.text(), "; ", ways.roll_call.why_not()));
}

/// The same on all members.
Decision agree(const GroupRequest& request) {
  std::optional<Ways> made;
  try {
    Ways& ways = made.emplace(request);
    const Decision decision = request.rank == 0 ? lead(request, ways) : follow(request, ways);
    if (decision.members != members_text(request)) ways.check.raise_unlike(decision, "its rank 0");
    ways.check.look();
    return decision;
  } catch (const c10::DistNetworkError& thrown) {
    throw c10::DistNetworkError({"fabring", __FILE__, 0}, c10::str("fabring: group '", request.name,
                                                                   "': ", failed_store_text(*request.store, thrown),
                                                                   made ? made->roll_call.another() : ""));
  }
}

}  // namespace

Membership Group::open(const GroupRequest& request) {
  OpenGroup::check_none_before_fork();
  const Decision decision = agree(request);
  SharedEngine::Joined joined;
  fabring_comm* comm = nullptr;
  if (decision.number == 0) {
    std::vector<std::int64_t> ranks = request.global_ranks;
    if (ranks.empty()) {
      ranks.resize(static_cast<std::size_t>(request.size));
      std::iota(ranks.begin(), ranks.end(), 0);
    }
    const StoreKeys keys(request.store, c10::str("fabring/", decision.token, "/"));
    joined = SharedEngine::create(keys, request.rank, request.size, request.timeout, std::move(ranks), decision.token,
                                  decision.job);
    comm = joined.engine->world();
  } else {
    joined.engine = SharedEngine::find(decision.token);
    if (joined.engine) joined.stay = joined.engine->stay();
    if (!joined.stay)
      raise_lost(c10::str("fabring: group '", request.name,
                          "': rank 0 of the group works in a process group that this "
                          "rank has destroyed; destroy process groups on all ranks alike"));
    comm = joined.engine->subgroup(request.global_ranks, decision.number, "group " + request.name);
  }
  const std::string id = c10::str(decision.token, "/", decision.number);
  return {std::move(joined.stay), std::shared_ptr<Group>(new Group(request, std::move(joined.engine), comm, id))};
}

Group::Group(GroupRequest request, std::shared_ptr<SharedEngine> engine, fabring_comm* comm, std::string id)
    : request_(std::move(request)), engine_(std::move(engine)), comm_(comm), id_(std::move(id)) {
  const std::lock_guard lock(living_groups().mutex);
  living_groups().groups.insert(this);
}

Group::~Group() {
  if (!origin_.is_here()) return;
  {
    const std::lock_guard lock(living_groups().mutex);
    living_groups().groups.erase(this);
  }
  fabring_comm_free(comm_);
}

void Group::abort_all(const std::string& reason) {
  const std::lock_guard lock(living_groups().mutex);
  for (const Group* group : living_groups().groups) fabring_comm_abort(group->comm_, reason.c_str(), nullptr);
}

at::Tensor Group::tensor(std::int64_t size, const at::TensorOptions& options) const {
  return engine_->tensor_memory().tensor(engine_->handle(), size, options);
}

std::int64_t Group::job_rank(std::int32_t engine_rank) const {
  return engine_->global_ranks().at(static_cast<std::size_t>(engine_rank));
}

std::string Group::report() const {
  return fabring::bindings::whole_text(
      [&](char* to, std::size_t size, std::size_t* needed, fabring_error* error) {
        return fabring_engine_report(engine_->handle(), to, size, needed, error);
      },
      check);
}

std::string Group::setting(const std::string& name) const { return engine_->setting(name); }

}  // namespace fabring_torch

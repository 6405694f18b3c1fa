#include "group.hpp"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include "engine.hpp"
#include "failure.hpp"
#include "member_check.hpp"

namespace fabring_torch {
namespace {

struct Living {
  std::mutex mutex;
  std::set<Group*> groups;
};

Living& living_groups() { return of_process<Living>(); }

std::string random_token() {
  std::random_device random;
  return c10::str(std::hex, random(), random());
}

Decision decide(const GroupRequest& request) {
  const auto engine = request.global_ranks.empty() ? nullptr : SharedEngine::find(request.global_ranks);
  return engine ? Decision{engine->token(), engine->take_number(), members_text(request)}
                : Decision{random_token(), 0, members_text(request)};
}

// Asks again and again: of a wait in the store that ends c10d itself warns, and meanwhile nobody would look at what the
// others say of the group. Adds an eighth to the time that rank 0 takes, and a request to the store four times a
// second.
void wait_for_rank_0(const GroupRequest& request, const Keys& keys, const MemberCheck& check) {
  using Clock = std::chrono::steady_clock;
  constexpr Clock::duration shortest = std::chrono::milliseconds(1), longest = std::chrono::milliseconds(250),
                            between_looks = std::chrono::milliseconds(500);
  const auto begin = Clock::now(), until = begin + request.timeout;
  auto next_look = begin + between_looks;
  for (auto now = begin; now < until; now = Clock::now()) {
    if (keys.wait("engine", std::chrono::milliseconds(0))) return;
    if (now >= next_look) {
      check.look();
      next_look = now + between_looks;
    }
    std::this_thread::sleep_for(std::min(std::clamp((now - begin) / 8, shortest, longest), until - now));
  }
  raise_lost(c10::str("fabring: group '", request.name, "': rank 0 of the group did not come within ",
                      request.timeout.count(), " ms; look at its output"));
}

}  // namespace

std::shared_ptr<Group> Group::open(const GroupRequest& request) {
  OpenGroup::check_none_before_fork();
  const Keys keys(request.store, request.global_ranks.empty()
                                     ? request.rank
                                     : request.global_ranks[static_cast<std::size_t>(request.rank)]);
  const MemberCheck check(request);
  Decision decision;
  if (request.rank == 0) {
    decision = decide(request);
    keys.put("engine", decision.encode());
    check.put(decision);
  } else {
    check.put({"-", 0, members_text(request)});
    wait_for_rank_0(request, keys, check);
    decision = Decision::decode(keys.get("engine"));
    if (decision.members != members_text(request)) check.raise_unlike(decision, "its rank 0");
  }
  check.look();
  std::shared_ptr<SharedEngine> engine;
  fabring_comm* comm = nullptr;
  if (decision.number == 0) {
    std::vector<std::int64_t> ranks = request.global_ranks;
    if (ranks.empty()) {
      ranks.resize(static_cast<std::size_t>(request.size));
      std::iota(ranks.begin(), ranks.end(), 0);
    }
    engine = SharedEngine::create(keys, request.rank, request.size, request.timeout, std::move(ranks), decision.token);
    comm = engine->world();
  } else {
    engine = SharedEngine::find(decision.token);
    if (!engine)
      raise_lost(c10::str("fabring: group '", request.name,
                          "': rank 0 of the group works in a process group that this "
                          "rank has destroyed; destroy process groups on all ranks alike"));
    comm = engine->subgroup(request.global_ranks, decision.number, "group " + request.name);
  }
  return std::shared_ptr<Group>(new Group(request, std::move(engine), comm));
}

Group::Group(GroupRequest request, std::shared_ptr<SharedEngine> engine, fabring_comm* comm)
    : request_(std::move(request)), engine_(std::move(engine)), comm_(comm) {
  const std::lock_guard lock(living_groups().mutex);
  living_groups().groups.insert(this);
}

Group::~Group() {
  if (!origin_.is_this_process()) return;
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

std::int64_t Group::job_rank(std::int32_t engine_rank) const {
  return engine_->global_ranks().at(static_cast<std::size_t>(engine_rank));
}

std::string Group::report() const {
  std::string text(8192, '\0');
  std::size_t needed = 0;
  fabring_error error = FABRING_ERROR_INIT;
  check(fabring_engine_report(engine_->handle(), text.data(), text.size(), &needed, &error), error);
  text.resize(std::min(needed, text.size() - 1));
  return text;
}

}  // namespace fabring_torch

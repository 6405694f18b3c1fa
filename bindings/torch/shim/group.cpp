#include "group.hpp"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <charconv>
#include <mutex>
#include <numeric>
#include <random>
#include <set>

#include "engine.hpp"
#include "failure.hpp"

namespace fabring_torch {
namespace {

// What the group's rank 0 decides, alone, since it alone may see an engine that is about to go. The token names an
// engine; with a number the group is a subgroup of one that exists, without it all make a new one. The members are said
// because torch numbers groups by the order of the calls: ranks that name different ones would meet all the same.
struct Decision {
  std::string token;
  std::uint32_t number = 0;
  std::string members;

  std::string encode() const { return c10::str(token, ' ', number, ' ', members); }
  static Decision decode(const std::string& text) {
    Decision made;
    const std::size_t space = text.find(' ');
    const char* const end = text.data() + text.size();
    const char* const first = text.data() + (space == std::string::npos ? text.size() : space + 1);
    const auto [last, wrong] = std::from_chars(first, end, made.number);
    if (last != end && *last == ' ') made.members.assign(last + 1, end);
    if (space == 0 || wrong != std::errc() || (last != end && *last != ' '))
      raise_lost("fabring: what the store has about this group cannot be read: another program uses the same keys");
    made.token = text.substr(0, space);
    return made;
  }
};

// Never freed: groups may outlive what is destroyed at exit.
struct Living {
  std::mutex mutex;
  std::set<Group*> groups;
};

Living& living_groups() {
  static Living* const living = new Living;
  return *living;
}

std::string random_token() {
  std::random_device random;
  return c10::str(std::hex, random(), random());
}

std::string members_text(const GroupRequest& request) {
  return request.global_ranks.empty() ? "all" : c10::str("[", c10::Join(", ", request.global_ranks), "]");
}

Decision decide(const GroupRequest& request) {
  const auto engine = request.global_ranks.empty() ? nullptr : SharedEngine::find(request.global_ranks);
  return engine ? Decision{engine->token(), engine->take_number(), members_text(request)}
                : Decision{random_token(), 0, members_text(request)};
}

}  // namespace

std::shared_ptr<Group> Group::open(const GroupRequest& request) {
  check_not_forked();
  note_connections();
  const Keys keys(request.store, request.rank);
  Decision decision;
  if (request.rank == 0) {
    decision = decide(request);
    keys.put("engine", decision.encode());
  } else {
    if (!keys.wait("engine", request.timeout))
      raise_lost(c10::str("fabring: group '", request.name, "': rank 0 of the group did not come within ",
                          request.timeout.count(), " ms; look at its output"));
    decision = Decision::decode(keys.get("engine"));
    if (decision.members != members_text(request))
      raise_lost(c10::str("fabring: mismatch: group '", request.name, "' has other ranks in the call of its rank 0, ",
                          decision.members, ", than in this rank's, ", members_text(request),
                          ": name the same ranks in every call of new_group, and make groups in the same order on all "
                          "ranks"));
  }
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
  if (is_forked()) return;  // another thread of the parent may have held the lock
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

std::string Group::report() const {
  std::string text(8192, '\0');
  std::size_t needed = 0;
  fabring_error error = FABRING_ERROR_INIT;
  check(fabring_engine_report(engine_->handle(), text.data(), text.size(), &needed, &error), error);
  text.resize(std::min(needed, text.size() - 1));
  return text;
}

}  // namespace fabring_torch

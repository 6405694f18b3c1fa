#include "group.hpp"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <mutex>
#include <numeric>
#include <optional>
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

std::vector<std::int64_t> parse_members(const std::string& text) {
  std::vector<std::int64_t> ranks;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at != end;) {
    std::int64_t rank = 0;
    const auto [next, wrong] = std::from_chars(at, end, rank);
    if (wrong == std::errc()) ranks.push_back(rank);
    at = wrong == std::errc() ? next : at + 1;
  }
  return ranks;
}

bool has(const std::vector<std::int64_t>& ranks, std::int64_t rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

// Those who made the group by the other list may wait in it for this rank: it is ended there.
void end_theirs(const GroupRequest& request, const Decision& theirs, const std::string& text) {
  const auto list = parse_members(theirs.members);
  const auto engine = theirs.number == 0 ? nullptr : SharedEngine::find(theirs.token);
  if (!engine || list.empty() || request.global_ranks.empty()) return;
  // A communicator is known by its number and its first rank.
  const bool mine = has(list, request.global_ranks[static_cast<std::size_t>(request.rank)]);
  if (!mine && list[0] != request.global_ranks[0]) return;
  try {
    fabring_comm* const comm =
        engine->subgroup(mine ? list : request.global_ranks, theirs.number, "group " + request.name);
    fabring_comm_abort(comm, text.c_str(), nullptr);
    fabring_comm_free(comm);
  } catch (const std::exception&) {  // what matters is the error that this rank raises
  }
}

// Where lists differ, ranks may not even agree who rank 0 of the group is. Each leaves its own in the store, and for
// the next rank in it: of any two lists that differ, one rank and the next in its list have such, and the later of the
// two finds the other's. Who finds one does not make its group and says so in the store, where those look who would
// make it too; groups of those who have looked before are ended.
class MemberCheck {
 public:
  explicit MemberCheck(const GroupRequest& request) : request_(request) {
    const auto& ranks = request.global_ranks;
    if (ranks.size() < 2) return;
    const auto self = static_cast<std::size_t>(request.rank);
    self_ = ranks[self];
    next_ = ranks[(self + 1) % ranks.size()];
    prefix_ = c10::str("fabring/lists/", request.store->add(c10::str("fabring/opened/", self_), 1), "/");
  }
  void put(const Decision& decision) const {
    if (prefix_.empty()) return;
    request_.store->set(of(self_), decision.encode());
    append(for_rank(next_), decision);
  }
  /// Throws.
  void look() const {
    if (prefix_.empty()) return;
    if (const auto list = found(of(next_))) compare(*list, c10::str("rank ", next_));
    for (const Decision& list : all(for_rank(self_))) compare(list, "another rank");
    for (const Decision& said : all(refusals()))
      if (has(request_.global_ranks, said.number)) give_up(said.members);
  }
  [[noreturn]] void raise_unlike(const Decision& theirs, const std::string& whose) const {
    const std::string text =
        c10::str("mismatch: group '", request_.name, "' has other ranks in the call of ", whose, ", ", theirs.members,
                 ", than in this rank's, ", members_text(request_),
                 ": name the same ranks in every call of new_group, and make groups in the same order on all ranks");
    end_theirs(request_, theirs, text);
    give_up(text);
  }

 private:
  static constexpr std::int64_t most_read = 4096;

  std::string of(std::int64_t rank) const { return c10::str(prefix_, "of/", rank); }
  std::string for_rank(std::int64_t rank) const { return c10::str(prefix_, "for/", rank); }
  std::string refusals() const { return c10::str(prefix_, "refused"); }  // `number`: by this rank, `members`: why

  std::optional<Decision> found(const std::string& key) const {
    if (!request_.store->check({key})) return std::nullopt;
    return Decision::decode(request_.store->get_to_str(key));
  }
  void append(const std::string& key, const Decision& entry) const {
    request_.store->set(c10::str(key, "/", request_.store->add(key, 1)), entry.encode());
  }
  std::vector<Decision> all(const std::string& key) const {
    std::vector<Decision> entries;
    const std::int64_t count = std::min(request_.store->add(key, 0), most_read);
    for (std::int64_t i = 1; i <= count; ++i)
      if (auto entry = found(c10::str(key, "/", i))) entries.push_back(std::move(*entry));
    return entries;
  }
  void compare(const Decision& theirs, const std::string& whose) const {
    if (theirs.members != members_text(request_)) raise_unlike(theirs, whose);
  }
  // A list has a number where its first rank left it, which is before that looks.
  [[noreturn]] void give_up(const std::string& text) const {
    if (const auto engine = prefix_.empty() ? nullptr : SharedEngine::find(request_.global_ranks)) {
      append(refusals(), {"-", static_cast<std::uint32_t>(self_), text});
      for (const std::int64_t rank : engine->global_ranks()) {
        const auto made = found(of(rank));
        if (made && has(parse_members(made->members), self_)) end_theirs(request_, *made, text);
      }
    }
    raise_lost("fabring: " + text);
  }

  const GroupRequest& request_;
  std::int64_t self_ = 0, next_ = 0;
  std::string prefix_;  // empty: there is nothing to compare
};

void wait_for_rank_0(const GroupRequest& request, const Keys& keys, const MemberCheck& check) {
  constexpr std::chrono::milliseconds between_looks{500};
  for (auto left = request.timeout; left.count() > 0; left -= between_looks) {
    if (keys.wait("engine", std::min(left, between_looks))) return;
    check.look();
  }
  raise_lost(c10::str("fabring: group '", request.name, "': rank 0 of the group did not come within ",
                      request.timeout.count(), " ms; look at its output"));
}

}  // namespace

std::shared_ptr<Group> Group::open(const GroupRequest& request) {
  check_not_forked();
  note_connections();
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

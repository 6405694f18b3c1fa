#include "member_check.hpp"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <exception>

#include "engine.hpp"
#include "failure.hpp"

namespace fabring_torch {
namespace {

constexpr std::int64_t most_read = 4096;

// All numbers in a text.
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

// Where there is no engine yet nobody knows which life this is; torchrun at least says so when it starts all ranks
// again. It does not count those starts that are for hosts that came or went, but then there are more or fewer ranks.
std::string first_life() {
  const char* const restarts = std::getenv("TORCHELASTIC_RESTART_COUNT");
  const char* const ranks = std::getenv("WORLD_SIZE");
  return restarts == nullptr ? "first/" : c10::str("first/", restarts, "/", ranks == nullptr ? "" : ranks);
}

}  // namespace

MemberCheck::MemberCheck(const GroupRequest& request, const std::vector<Place>& places) : request_(request) {
  const auto& ranks = request.global_ranks;
  if (ranks.size() < 2) return;
  const auto self = static_cast<std::size_t>(request.rank);
  self_ = ranks[self];
  next_ = ranks[(self + 1) % ranks.size()];
  const std::string life = places.empty() ? first_life() : places.front().token;
  const std::int64_t number =
      places.empty() ? request.store->add(c10::str("fabring/opened/", life, "/", self_), 1) : places.front().number;
  prefix_ = c10::str("fabring/lists/", life, "/", number, "/");
}

void MemberCheck::put(const Decision& decision) const {
  if (prefix_.empty()) return;
  request_.store->set(list_of(self_), decision.encode());
  append(lists_for(next_), decision.encode());
}

void MemberCheck::look() const {
  if (prefix_.empty()) return;
  if (const auto list = found(list_of(next_))) compare(*list, c10::str("rank ", next_));
  for (const std::string& list : all(lists_for(self_))) compare(list, "another rank");
  for (const std::string& refusal : all(refusals())) {
    std::int64_t rank = -1;
    const auto [end, wrong] = std::from_chars(refusal.data(), refusal.data() + refusal.size(), rank);
    if (wrong == std::errc() && has(request_.global_ranks, rank)) give_up(refusal.substr(refusal.find(' ') + 1));
  }
}

void MemberCheck::raise_unlike(const Decision& theirs, const std::string& whose) const {
  const std::string text =
      c10::str("mismatch: group '", request_.name, "' has other ranks in the call of ", whose, ", ", theirs.members,
               ", than in this rank's, ", members_text(request_),
               ": name the same ranks in every call of new_group, and make groups in the same order on all ranks");
  end_group_of(theirs, text);
  give_up(text);
}

std::string MemberCheck::list_of(std::int64_t rank) const { return c10::str(prefix_, "of/", rank); }
std::string MemberCheck::lists_for(std::int64_t rank) const { return c10::str(prefix_, "for/", rank); }
std::string MemberCheck::refusals() const { return c10::str(prefix_, "refused"); }

std::optional<std::string> MemberCheck::found(const std::string& key) const {
  if (!request_.store->check({key})) return std::nullopt;
  return request_.store->get_to_str(key);
}

void MemberCheck::append(const std::string& key, const std::string& entry) const {
  request_.store->set(c10::str(key, "/", request_.store->add(key, 1)), entry);
}

std::vector<std::string> MemberCheck::all(const std::string& key) const {
  std::vector<std::string> entries;
  const std::int64_t count = std::min(request_.store->add(key, 0), most_read);
  for (std::int64_t i = 1; i <= count; ++i)
    if (auto entry = found(c10::str(key, "/", i))) entries.push_back(std::move(*entry));
  return entries;
}

void MemberCheck::compare(const std::string& list, const std::string& whose) const {
  const Decision theirs = Decision::decode(list);
  if (theirs.members != members_text(request_)) raise_unlike(theirs, whose);
}

// Those who made it may wait in it for this rank.
void MemberCheck::end_group_of(const Decision& theirs, const std::string& text) const {
  const auto list = parse_members(theirs.members);
  const auto engine = theirs.number == 0 ? nullptr : SharedEngine::find(theirs.token);
  if (!engine || list.empty() || request_.global_ranks.empty()) return;
  // A communicator is known by its number and its first rank.
  const bool mine = has(list, request_.global_ranks[static_cast<std::size_t>(request_.rank)]);
  if (!mine && list[0] != request_.global_ranks[0]) return;
  try {
    fabring_comm* const comm =
        engine->subgroup(mine ? list : request_.global_ranks, theirs.number, "group " + request_.name);
    fabring_comm_abort(comm, text.c_str(), nullptr);
    fabring_comm_free(comm);
  } catch (const std::exception&) {  // what matters is the error that this rank raises
  }
}

// Said before the lists are read: whoever leaves its own after that finds it when it looks.
void MemberCheck::give_up(const std::string& text) const {
  if (const auto engine = prefix_.empty() ? nullptr : SharedEngine::find(request_.global_ranks)) {
    append(refusals(), c10::str(self_, ' ', text));
    for (const std::int64_t rank : engine->global_ranks()) {
      const auto list = found(list_of(rank));
      if (!list) continue;
      const Decision made = Decision::decode(*list);
      if (has(parse_members(made.members), self_)) end_group_of(made, text);
    }
  }
  raise_lost("fabring: " + text);
}

}  // namespace fabring_torch

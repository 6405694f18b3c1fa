#include "runtime/engine/members/membership.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/wire.hpp"
#include "runtime/engine/engine_core.hpp"

namespace fabring {
namespace {

constexpr std::size_t most_shown = 32;
constexpr auto time_for_lists = std::chrono::milliseconds(400);
constexpr auto young = std::chrono::seconds(3);

std::uint64_t global_id(std::uint32_t id, const std::vector<Rank>& members) {
  return (std::uint64_t{id} << 32) | static_cast<std::uint32_t>(members[0]);
}

std::string list_text(const std::vector<Rank>& members) {
  std::string text;
  for (std::size_t i = 0; i < std::min(members.size(), most_shown); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", members[i]);
  return members.size() <= most_shown ? fmt::format("[{}]", text)
                                      : fmt::format("[{}, ... {} in all]", text, members.size());
}

}  // namespace

std::string MemberList::encode() const {
  WireWriter out;
  out.number(id).number(static_cast<std::uint32_t>(members.size()));
  for (const Rank member : members) out.number(member);
  return out.take();
}

std::optional<MemberList> MemberList::decode(Rank from, std::string_view bytes, int world_size) {
  WireReader in(bytes);
  MemberList list;
  list.from = from;
  list.id = in.number<std::uint32_t>();
  const auto count = in.number<std::uint32_t>();
  if (count == 0 || count > most_members) return std::nullopt;
  for (std::uint32_t i = 0; in.ok() && i < count; ++i) {
    list.members.push_back(in.number<Rank>());
    if (list.members.back() < 0 || list.members.back() >= world_size) return std::nullopt;
  }
  if (!in.complete()) return std::nullopt;
  return list;
}

std::uint64_t members_digest(const std::vector<Rank>& members) {
  std::uint64_t digest = 0xcbf29ce484222325;  // FNV-1a, a rank at a time
  for (const Rank member : members) digest = (digest ^ static_cast<std::uint32_t>(member)) * 0x100000001b3;
  return digest | 1;
}

std::vector<MemberList> SubgroupLists::made(const std::shared_ptr<const CommunicatorCore>& subgroup) {
  std::lock_guard lock(mutex_);
  std::erase_if(made_, [&](const auto& one) {
    const auto& [id, made] = one;
    if (!made.subgroup.expired()) return false;
    gone_.insert(id);
    digests_of_gone_.emplace_back(id, made.digest);
    return true;
  });
  while (digests_of_gone_.size() > most_gone) digests_of_gone_.pop_front();
  made_[subgroup->id] = {subgroup, members_digest(subgroup->members)};
  std::vector<MemberList> told;
  std::erase_if(waiting_, [&](const MemberList& list) {
    const bool is_about_it = list.id == subgroup->id;
    if (is_about_it) {
      waiting_members_ -= list.members.size();
      told.push_back(list);
    }
    return is_about_it;
  });
  return told;
}

std::shared_ptr<const CommunicatorCore> SubgroupLists::heard(const MemberList& list) {
  std::lock_guard lock(mutex_);
  if (const auto found = made_.find(list.id); found != made_.end()) return found->second.subgroup.lock();
  if (!gone_.contains(list.id)) keep(list);
  return nullptr;
}

std::uint64_t SubgroupLists::digest_of_made(std::uint32_t id) const {
  std::lock_guard lock(mutex_);
  if (const auto found = made_.find(id); found != made_.end()) return found->second.digest;
  const auto found = std::ranges::find(digests_of_gone_, id, [](const auto& one) { return one.first; });
  return found == digests_of_gone_.end() ? 0 : found->second;
}

// Of a subgroup that is never made here nobody takes the lists: without room the oldest go.
void SubgroupLists::keep(const MemberList& list) {
  waiting_.push_back(list);
  waiting_members_ += list.members.size();
  while (waiting_.size() > most_waiting || waiting_members_ > most_waiting_members) {
    waiting_members_ -= waiting_.front().members.size();
    waiting_.pop_front();
  }
}

// ---- what an engine makes of them -----------------------------------------------------------------------------------

void EngineCore::tell_members(const std::shared_ptr<const CommunicatorCore>& subgroup) {
  const std::vector<Rank>& members = subgroup->members;
  if (!parts_.control) return;
  const std::vector<MemberList> told = subgroup_lists_.made(subgroup);
  if (members.size() == 1 || members.size() > MemberList::most_members) return;
  const Rank next = members[static_cast<std::size_t>(subgroup->self + 1) % members.size()];
  parts_.control->send_letter(next, MemberList::mark + MemberList{parts_.self, subgroup->id, members}.encode());
  for (const MemberList& list : told) compare_members(*subgroup, list);
}

void EngineCore::heard_members(Rank from, std::string_view told) {
  const auto list = MemberList::decode(from, told, parts_.world_size);
  if (!list) return;
  if (const auto subgroup = subgroup_lists_.heard(*list)) compare_members(*subgroup, *list);
}

void EngineCore::compare_members(const CommunicatorCore& communicator, const MemberList& list) {
  // A list is for the next in it: one that comes to a group of one is of another group, to which this rank comes yet or
  // in which it is refused.
  if (communicator.size() == 1 || list.members == communicator.members) return;
  const std::string text = fmt::format(
      "communicator '{}' was made of other ranks, or in another order, on different ranks: {} gave {}, {} gave {} "
      "(ranks of "
      "the world). All its ranks must give the same list",
      communicator.label, who(list.from), list_text(list.members), who(parts_.self), list_text(communicator.members));
  // Each knows it by the first rank of its own list. Who is no member here has made another one: ours may go on.
  const std::uint64_t ours = communicator.global_id(), theirs = global_id(list.id, list.members);
  const bool is_member = communicator.rank_of_world(list.from) >= 0;
  if (is_member) report({ErrorCode::mismatch, list.from, parts_.self, ours, text});
  if (!is_member || theirs != ours) report({ErrorCode::mismatch, list.from, parts_.self, theirs, text});
}

// What ranks of a subgroup make of each other's messages if their lists differ says little: the lists say more, and are
// about to come.
bool EngineCore::hold_back(CommunicatorCore& communicator, const Failure& failure) {
  const Time now = parts_.clock->now();
  if (!parts_.control || !communicator.is_subgroup() || now - communicator.made_at > Time(young)) return false;
  if (!communicator.held) {
    communicator.held = failure;
    communicator.held_until = now + Time(time_for_lists);
  }
  return true;
}

bool EngineCore::doubt_members(CommunicatorCore& communicator, Rank world_rank) {
  return hold_back(
      communicator,
      {ErrorCode::mismatch, world_rank, parts_.self, communicator.global_id(),
       fmt::format("{} sent a message on communicator '{}' that fits no plan of {}, which gave {} (ranks of the "
                   "world) as its members. All its ranks must give the same list",
                   who(world_rank), communicator.label, who(parts_.self), list_text(communicator.members))});
}

void EngineCore::release_held(CommunicatorCore& communicator, Time now) {
  if (!communicator.held || now < communicator.held_until) return;
  report(*std::exchange(communicator.held, std::nullopt));
}

}  // namespace fabring

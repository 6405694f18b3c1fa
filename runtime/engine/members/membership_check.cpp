#include "runtime/engine/members/membership_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/engine/members/communicator_core.hpp"

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

MembershipCheck::MembershipCheck(Rank self, int world_size, ControlPlane* control, const Clock& clock,
                                 std::function<std::string(Rank)> who)
    : self_(self), world_size_(world_size), control_(control), clock_(clock), who_(std::move(who)) {}

void MembershipCheck::made(const std::shared_ptr<const CommunicatorCore>& subgroup) {
  const std::vector<Rank>& members = subgroup->members;
  if (control_ == nullptr) return;
  const std::vector<MemberList> told = lists_.made(subgroup);
  if (members.size() == 1 || members.size() > MemberList::most_members) return;
  const Rank next = members[static_cast<std::size_t>(subgroup->self + 1) % members.size()];
  control_->send_letter(next, MemberList::mark + MemberList{self_, subgroup->id, members}.encode());
  for (const MemberList& list : told) compare(*subgroup, list);
}

void MembershipCheck::heard(Rank from, std::string_view told) {
  const auto list = MemberList::decode(from, told, world_size_);
  if (!list) return;
  if (const auto subgroup = lists_.heard(*list)) compare(*subgroup, *list);
}

void MembershipCheck::compare(const CommunicatorCore& communicator, const MemberList& list) const {
  // A list is for the next in it: one that comes to a group of one is of another group, to which this rank comes yet or
  // in which it is refused.
  if (communicator.size() == 1 || list.members == communicator.members) return;
  const std::string text = fmt::format(
      "communicator '{}' was made of other ranks, or in another order, on different ranks: {} gave {}, {} gave {} "
      "(ranks of the world). All its ranks must give the same list",
      communicator.label, who_(list.from), list_text(list.members), who_(self_), list_text(communicator.members));
  // Each knows it by the first rank of its own list. Who is no member here has made another one: ours may go on.
  const std::uint64_t ours = communicator.global_id(), theirs = global_id(list.id, list.members);
  const bool is_member = communicator.rank_of_world(list.from) >= 0;
  if (is_member) control_->report({ErrorCode::mismatch, list.from, self_, ours, text});
  if (!is_member || theirs != ours) control_->report({ErrorCode::mismatch, list.from, self_, theirs, text});
}

// What ranks of a subgroup make of each other's messages if their lists differ says little: the lists say more, and are
// about to come.
bool MembershipCheck::hold_back(CommunicatorCore& communicator, const Failure& failure) const {
  const Time now = clock_.now();
  if (control_ == nullptr || !communicator.is_subgroup() || now - communicator.made_at > Time(young)) return false;
  if (!communicator.held) {
    communicator.held = failure;
    communicator.held_until = now + Time(time_for_lists);
  }
  return true;
}

bool MembershipCheck::doubt(CommunicatorCore& communicator, Rank world_rank) const {
  return hold_back(
      communicator,
      {ErrorCode::mismatch, world_rank, self_, communicator.global_id(),
       fmt::format("{} sent a message on communicator '{}' that fits no plan of {}, which gave {} (ranks of the "
                   "world) as its members. All its ranks must give the same list",
                   who_(world_rank), communicator.label, who_(self_), list_text(communicator.members))});
}

void MembershipCheck::release(CommunicatorCore& communicator, Time now) const {
  if (!communicator.held || now < communicator.held_until) return;
  control_->report(*std::exchange(communicator.held, std::nullopt));
}

}  // namespace fabring

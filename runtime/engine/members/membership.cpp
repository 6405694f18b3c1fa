#include "runtime/engine/members/membership.hpp"

#include <algorithm>

#include "runtime/base/wire.hpp"
#include "runtime/engine/members/communicator_core.hpp"

namespace fabring {

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

}  // namespace fabring

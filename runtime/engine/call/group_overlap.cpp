#include "runtime/engine/call/group_overlap.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/engine/call/buffer_needs.hpp"
#include "runtime/engine/call/buffer_ranges.hpp"

namespace fabring {
namespace {

// What a piece of memory is used for, in the order of this list.
enum class Use : std::uint8_t { sent, received, read, written };
constexpr std::size_t uses = 4;

Use use_of(const Call& call, BufferSide side) {
  const bool out = side == BufferSide::output;
  if (is_message(call.collective)) return out ? Use::received : Use::sent;
  return out ? Use::written : Use::read;
}

bool conflict(Use a, Use b) {
  const auto writes = [](Use use) { return use == Use::received || use == Use::written; };
  const auto is_of_message = [](Use use) { return use == Use::sent || use == Use::received; };
  return (writes(a) || writes(b)) && (is_of_message(a) || is_of_message(b));
}

struct Used {
  MemoryRange range;
  Use use = Use::sent;
  std::size_t number = 0;  // of the operation
};

// Every piece of memory, in the order of its begin.
std::vector<Used> used_by(std::span<const Result<Call>> group, const CommunicatorCore& communicator) {
  std::vector<Used> all;
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (!group[i]) continue;
    const Call& call = *group[i];
    const BufferNeeds needs = buffer_needs(call, communicator.self, communicator.size());
    for (const BufferSide side : {BufferSide::input, BufferSide::output})
      for_each_range(call, side, side == BufferSide::input ? needs.in : needs.out, [&](const MemoryRange& range) {
        all.push_back({range, use_of(call, side), i});
      });
  }
  std::ranges::sort(all, {}, [](const Used& used) { return std::pair(used.range.begin, used.number); });
  return all;
}

// The lower number first.
std::optional<std::pair<std::size_t, std::size_t>> two_that_conflict(const std::vector<Used>& all) {
  std::array<const Used*, uses> furthest{};  // of each use, of those that begin before
  for (const Used& used : all) {
    for (const Used* before : furthest)
      if (before != nullptr && before->range.end > used.range.begin && conflict(before->use, used.use))
        return std::minmax({before->number, used.number});
    const Used*& last = furthest[static_cast<std::size_t>(used.use)];
    if (last == nullptr || last->range.end < used.range.end) last = &used;
  }
  return std::nullopt;
}

}  // namespace

Status check_group(std::span<const Result<Call>> group, const CommunicatorCore& communicator) {
  const auto is_one = [](const Result<Call>& call) { return call && is_message(call->collective); };
  if (group.size() < 2 || std::ranges::none_of(group, is_one)) return {};
  const auto two = two_that_conflict(used_by(group, communicator));
  if (!two) return {};
  ErrorContext context;
  context.rank = communicator.members[static_cast<std::size_t>(communicator.self)];
  return {ErrorCode::invalid_argument,
          fmt::format("a group on '{}', rank {}{}: the buffers of operations {} and {} overlap, {} and {}: a send or "
                      "receive goes on beside the other operations of its group, and none may use what another writes",
                      communicator.label, communicator.self, communicator.in_the_job(communicator.self), two->first,
                      two->second, group[two->first]->describe_unchosen(), group[two->second]->describe_unchosen()),
          std::move(context)};
}

}  // namespace fabring

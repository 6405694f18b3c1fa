#include "tools/fabring/doctor/message_sides.hpp"

#include <algorithm>
#include <string_view>

namespace fabring::tools {
namespace {

// "recv(4 x float32, from 0, tag 7)": "7)"; empty: any tag.
std::string_view tag_of(const OperationState& operation) {
  constexpr std::string_view label = ", tag ";
  const std::string_view call = operation.call;
  const std::size_t at = call.rfind(label);
  return at == std::string_view::npos ? std::string_view() : call.substr(at + label.size());
}

// A message has one peer; a receive from anybody has none until it has met a send.
bool names(const OperationState& operation, Rank rank) {
  return operation.peers.empty() ? is_receive(operation) : operation.peers.front().rank == rank;
}

bool tags_fit(const OperationState& a, const OperationState& b) {
  return tag_of(a) == tag_of(b) || tag_of(a).empty() || tag_of(b).empty();
}

bool are_sides(const OperationState& a, const OperationState& b) {
  return a.communicator == b.communicator && (is_send(a) ? is_receive(b) : is_receive(a) && is_send(b));
}

// The number of a message is the sender's; a receive has it once the two have met.
bool have_met(const OperationState& a, const OperationState& b) { return a.sequence != 0 && a.sequence == b.sequence; }

}  // namespace

bool is_send(const OperationState& operation) { return operation.call.starts_with("send"); }

bool is_receive(const OperationState& operation) { return operation.call.starts_with("recv"); }

bool is_message(const OperationState& operation) { return is_send(operation) || is_receive(operation); }

bool is_cut(const RankState& state) { return state.operation_count > state.operations.size(); }

OtherSide other_side(const Waiter& waiter, const RankPicture& other) {
  const OperationState& message = *waiter.operation;
  OtherSide found;
  for (const OperationState& one : other.state->operations) {
    if (!are_sides(message, one) || !names(one, waiter.rank->rank)) continue;
    if (have_met(message, one)) return {&one, true};
    if (message.sequence != 0 && one.sequence != 0) continue;
    const auto& own = waiter.rank->state->operations;
    if (std::any_of(own.begin(), own.end(), [&](const OperationState& mine) {
          return are_sides(mine, one) && names(mine, other.rank) && have_met(mine, one);
        }))
      continue;
    if (tags_fit(message, one) && !found.fits) found = {&one, true};
    if (found.operation == nullptr) found.operation = &one;
  }
  return found;
}

}  // namespace fabring::tools

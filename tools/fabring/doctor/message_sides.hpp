#pragma once
// Sends and receives as the status of a job tells them, and which of them belong together: by communicator, rank, tag
// and number. Pure.

#include "tools/fabring/status/job_picture.hpp"

namespace fabring::tools {

/// An operation and the rank that is in it.
struct Waiter {
  const RankPicture* rank = nullptr;
  const OperationState* operation = nullptr;
};

bool is_send(const OperationState& operation);
bool is_receive(const OperationState& operation);
/// Is it a send or a receive?
bool is_message(const OperationState& operation);

/// Has it more operations than it lists?
bool is_cut(const RankState& state);

struct OtherSide {
  const OperationState* operation = nullptr;
  bool fits = false;
};

/// What the other rank, which has a state, has called that names this one: what fits, or else what has another tag.
OtherSide other_side(const Waiter& waiter, const RankPicture& other);

}  // namespace fabring::tools

// EngineCore where this machine has no more memory, or this process may have no more of it: what was to be done is
// lost, and whoever counts on it hears so.

#include <fmt/format.h>

#include "runtime/engine/engine_core.hpp"

namespace fabring {
namespace {

std::string text_of(const std::string& who) {
  return fmt::format(
      "{} has no memory left for what operations need; see what the limits of its process (ulimit -v) and of its "
      "container allow, and what else takes memory on its host",
      who);
}

}  // namespace

void EngineCore::fail_for_memory(CommunicatorCore& communicator) {
  const Failure failure{ErrorCode::out_of_memory, parts_.self, parts_.self, communicator.global_id(),
                        text_of(who(parts_.self))};
  report(failure);
  fail(communicator, explain(failure));
}

// Nobody knows whose it was.
void EngineCore::fail_all_for_memory() {
  const Failure failure{ErrorCode::out_of_memory, parts_.self, parts_.self, 0, text_of(who(parts_.self))};
  suspects_.blame_nobody();
  report(failure);
  for (const auto& communicator : communicators()) fail(*communicator, explain(failure));
}

// It is tried again where that cannot be told now.
bool EngineCore::ran_out_of_memory() noexcept {
  news_.store(true, std::memory_order_release);  // what was being taken
  try {
    fail_all_for_memory();
  } catch (const std::bad_alloc&) {
    owes_failure_ = true;
  }
  return false;
}

}  // namespace fabring

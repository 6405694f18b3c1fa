#include "runtime/api/engine_of.hpp"

#include <fmt/format.h>

#include <atomic>
#include <utility>

namespace fabring {

Status no_engine(const std::shared_ptr<CommunicatorCore>& core) {
  if (!is_parents(core)) return gone;
  return {ErrorCode::invalid_argument,
          fmt::format("this process is a child of fork() of rank {}'s, and its engine belongs to its parent: call "
                      "Fabring there only, or make an engine of your own here, as a rank of another job",
                      core->members[static_cast<std::size_t>(core->self)])};
}

void keep_for_ever(std::shared_ptr<EngineCore> engine) {
  struct Kept {
    std::shared_ptr<EngineCore> engine;
    const Kept* before;
  };
  static constinit std::atomic<const Kept*> last{nullptr};
  auto* const kept = new Kept{std::move(engine), last.load()};
  while (!last.compare_exchange_weak(kept->before, kept)) {
  }
}

}  // namespace fabring

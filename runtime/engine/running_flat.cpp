// The short way through EngineCore: small blocking operations, run by their callers.

#include "runtime/engine/engine_core.hpp"

namespace fabring {
namespace {

constexpr std::uint32_t runs_per_look = 128;  // at what else there is to do
constexpr std::size_t most_flat_bytes = 1 << 20;

}  // namespace

Status EngineCore::run(const std::shared_ptr<CommunicatorCore>& communicator, Call call) {
  std::shared_ptr<Execution> execution;
  if (auto status = run_flat(communicator, call, execution)) return *std::move(status);
  if (!execution) execution = submit(communicator, std::move(call), false);
  return wait(*execution, std::chrono::nanoseconds::max());
}

// What serves calls like this one, if they can be run so. With the drive held.
FlatRun* EngineCore::flat_for(CommunicatorCore& communicator, const Call& call) {
  for (const auto& flat : communicator.flat)
    if (flat && flat->serves(call)) return flat->fits(*this, communicator) ? flat.get() : nullptr;
  std::shared_ptr<const PreparedPlan> plan;
  {
    std::lock_guard lock(communicator.mutex);
    auto found = communicator.plans.find_or_make(call, communicator.self, communicator.node_of);
    if (!found) return nullptr;
    plan = std::move(*found);
  }
  const Tiling tiling = choose_tiling(*plan, call, tiling_rules());
  if (tiling.tiles != 1) return nullptr;
  auto& place = communicator.flat[communicator.next_flat++ % communicator.flat.size()];
  place = std::make_unique<FlatRun>(std::move(plan), call, tiling);
  return place->fits(*this, communicator) ? place.get() : nullptr;
}

std::optional<Status> EngineCore::run_flat(const std::shared_ptr<CommunicatorCore>& communicator, Call& call,
                                           std::shared_ptr<Execution>& goes_on) {
  if (!transfer_ || !transfer_->any_fast() || call.bytes() > most_flat_bytes || !call.counts.empty() ||
      is_message(call.collective) || pending_.load() > 0 || has_news() || !drive_.try_lock())
    return std::nullopt;
  std::optional<Status> status;
  if (++flat_runs_ % runs_per_look == 0) progress();
  FlatRun* const flat = pending_.load() == 0 && communicator->early.empty() ? flat_for(*communicator, call) : nullptr;
  std::uint32_t sequence = 0;
  if (flat != nullptr) {
    std::lock_guard lock(communicator->mutex);
    if (communicator->failed.ok() && !left_.load()) sequence = ++communicator->last_sequence;
  }
  if (sequence != 0) {
    communicator->past[sequence % communicator->past.size()] = {sequence, flat->signature()};
    const FlatRun::End end = flat->run(*this, *communicator, std::move(call), sequence);
    transfer_->flush();
    if (end == FlatRun::End::done) {
      status = Status();
      ran_at_once_.store(ran_at_once_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      last_end_.store(parts_.clock->about_now(), std::memory_order_relaxed);
    } else {
      goes_on = go_on(communicator, *flat, sequence);
    }
  }
  release_drive();
  if (waiters_.load() > 0) notify_waiters();
  return status;
}

// The rest of an operation that was begun: it is the next of its communicator.
std::shared_ptr<Execution> EngineCore::go_on(const std::shared_ptr<CommunicatorCore>& communicator, FlatRun& flat,
                                             std::uint32_t sequence) {
  Call call = flat.take_call();
  const Tiling tiling = choose_tiling(*flat.plan(), call, tiling_rules());
  auto execution = std::make_shared<Execution>(communicator, std::move(call), flat.plan(), sequence, tiling);
  for (auto& kept : communicator->flat)
    if (kept.get() == &flat) execution->go_on_from(std::move(kept));
  pending_.fetch_add(1);
  communicator->queued.push_back(execution);
  start_queued(*communicator);
  return execution;
}

}  // namespace fabring

#include "tools/fabring/start_together.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace fabring::tools {

Result<std::unique_ptr<Engine>> start_together(Config config, const Status& own) {
  if (!own.ok() && config.world_size == 1) return own;
  const Rank rank = config.rank;
  // Who has bad news need not wait long for somebody to hear it.
  if (!own.ok())
    config.rendezvous_timeout = std::min<std::chrono::milliseconds>(config.rendezvous_timeout, std::chrono::seconds(5));
  auto engine = Engine::create(std::move(config));
  if (!engine) return own.ok() ? engine.error() : own;
  Communicator world = (*engine)->world();
  const std::int32_t none = world.size();
  std::int32_t unable = own.ok() ? none : rank;
  const Status told = world.allreduce(&unable, &unable, 1, DataType::int32, ReduceOp::min);
  if (told.ok() && unable == none) return engine;
  if (told.ok()) (void)(*engine)->leave();
  if (!own.ok()) return own;
  if (!told.ok()) return told;
  return Status(ErrorCode::aborted,
                fmt::format("rank {} cannot take part, as it says itself; nothing was measured", unable));
}

Status said_by(Rank rank, const Status& error) {
  const std::string who = fmt::format("rank {}", rank);
  const bool named = error.message().starts_with(who + " ") || error.message().starts_with(who + ":");
  return rank == 0 || named ? error : error.with_prefix(who + ": ");
}

}  // namespace fabring::tools

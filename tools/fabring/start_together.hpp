#pragma once
// The start of a subcommand that runs on every rank of a job, where one rank may be unable to do its part: its file
// cannot be written, its GPU cannot be used. It meets the others all the same, so that they end with it at once rather
// than wait for a rank that is gone.

#include <memory>

#include "fabring/fabring.hpp"

namespace fabring::tools {

/// Collective. `own`: whether this rank can do its part. Errors: `own`; aborted where it is another rank that cannot;
/// those of Engine::create.
Result<std::unique_ptr<Engine>> start_together(Config config, const Status& own);

/// The same error with "rank 3: " in front, unless it begins so or is of rank 0, which speaks for all.
Status said_by(Rank rank, const Status& error);

}  // namespace fabring::tools

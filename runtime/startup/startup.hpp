#pragma once
// Start-up: from a Config to a running engine. The order: meet (bootstrap), connect the control tree, tell each other
// who we are, open the transport that all can use on the interface that reaches the others, exchange its addresses,
// find the nodes, post the first receives. Every step has a deadline; an error on one rank reaches all.

#include <memory>

#include "fabring/config.hpp"
#include "fabring/status.hpp"
#include "fabring/store.hpp"
#include "runtime/engine/engine_core.hpp"

namespace fabring {

/// Without a store the ranks meet at the master address. `device`: other GPUs than this machine's, for tests.
Result<std::shared_ptr<EngineCore>> start_up(Config config, Store* store = nullptr,
                                             std::shared_ptr<DeviceRuntime> device = nullptr);

/// For a rank that cannot come to that with this store: those that wait for it there end at once, with its reason.
/// Errors: invalid_argument (`why` is no error, a negative rank), those of the store.
Status decline_start(Store& store, Rank rank, const Status& why);

}  // namespace fabring

#pragma once
// Meeting by a store that the embedding framework hands us. Every rank says where it is; rank 0 reads what all have
// said and publishes, once, what all need to know: the job's nonce, whether loopback is enough, and an address of rank
// 0, by which the others find the interface that leads to it. Rank 0 reads n values. Every other rank looks for that
// one, and later for the address of its parent on the control plane, again and again: the more seldom the more ranks
// there are, as one store answers them all.
// One whose start fails, before it has said where it is or after, says so there too; rank 0 looks for it while it waits
// and before it publishes, the others about once a second while they start.

#include <chrono>
#include <memory>

#include "fabring/store.hpp"
#include "runtime/bootstrap/bootstrap.hpp"

namespace fabring {

/// The store must outlive what is returned. Every `note_interval` of waiting is a warning naming those waited for.
/// Errors: invalid_argument (no such rank), timeout (on rank 0 it names the ranks that did not come within
/// config.rendezvous_timeout), unavailable (no interface to use), mismatch (somebody else's values), and what made
/// another rank give up.
Result<std::unique_ptr<Bootstrap>> meet_by_store(const Config& config, Store& store, const Log& log,
                                                 std::chrono::milliseconds note_interval = std::chrono::seconds(5));

/// For a rank that cannot come to the meeting: those that wait for it there end at once, with its reason. Errors: those
/// of the store.
Status decline_meeting(Store& store, Rank self, const Status& why);

}  // namespace fabring

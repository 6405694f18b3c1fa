#pragma once
// What rank 0 of `fabring doctor net` gathers of all ranks over the rendezvous, and what it tells them in between: the
// doors at which they are to call.

#include <chrono>

#include "tools/fabring/doctor/blob_exchange.hpp"
#include "tools/fabring/doctor/finding.hpp"
#include "tools/fabring/doctor/net_verdict.hpp"

namespace fabring::tools {

/// Reads the facts of `world` ranks into the picture and tells all of them the doors; none if there are too many to
/// tell, which the picture then says. Who has not told by the deadline stays empty. Errors: of the exchange.
Status gather_facts(BlobExchange& exchange, int world, NetPicture& picture,
                    std::chrono::steady_clock::time_point deadline);

/// Reads what they have found, likewise.
Status gather_probes(BlobExchange& exchange, NetPicture& picture, std::chrono::steady_clock::time_point deadline);

/// What an error of either means: a rank that died, or something that was not checked.
Finding ended_early(const Status& status);

}  // namespace fabring::tools

#pragma once
// The proof of plans as JSON, for programs that make plans: `fabring plan --check --json`.
//
// An object: "collective", "algorithm", "ranks", "proved" (true, false, or null: too much to prove), "error" (null, or
// what breaks where); of proved plans "steps", "messages", "rounds" (longest chain of messages), "counts" (of elements
// they were proved at), "at_every_count", "in_rank_order" and "in_one_step" (null where nothing is reduced);
// and "sent": what goes from rank to rank, [from, to, bytes] each, of "count" elements of "type".

#include <span>
#include <string>

#include "collectives/plan.hpp"
#include "collectives/prove.hpp"
#include "fabring/status.hpp"

namespace fabring::tools {

/// `bytes_counted_for`: elements of the vector or of each block. Ends with a newline.
std::string proof_to_json(std::span<const Plan> plans, const Result<Proof>& proof, std::size_t bytes_counted_for,
                          DataType type);

}  // namespace fabring::tools

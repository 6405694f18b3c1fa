// What ranks say they are doing, and what `fabring status` and `fabring doctor hang` make of it: a state for each rank,
// behind its length.

#include "runtime/engine/rank_state.hpp"

#include "tests/fuzz/pieces.hpp"
#include "tests/fuzz/round_trip.hpp"
#include "tools/fabring/doctor/hang_verdict.hpp"
#include "tools/fabring/status/job_text.hpp"

namespace fabring::fuzz::rank_state {
namespace {

constexpr int most_ranks = 8;

RankState busy(Rank rank, std::uint32_t sequence) {
  RankState state;
  state.rank = rank;
  state.world = 3;
  state.job_id = "job";
  state.version = "0.1.0";
  state.host = "host-a";
  state.pid = 4711;
  state.communicators.push_back({0, "world", 3, sequence, "allreduce(1000 x float32, sum, ring)", 0, ""});
  state.communicator_count = 1;
  OperationState operation;
  operation.sequence = sequence;
  operation.call = "allreduce(1000 x float32, sum, ring)";
  operation.bytes = 4000;
  operation.phase = OperationPhase::running;
  operation.begun_ms = operation.stuck_ms = 60'000;
  operation.peer_count = 1;
  operation.peers.push_back({(rank + 1) % 3, 1, 2, 0, 2, 1, true});
  state.operations.push_back(operation);
  state.operation_count = 1;
  return state;
}

RankState idle(Rank rank) {
  RankState state = busy(rank, 4);
  state.operations.clear();
  state.operation_count = 0;
  state.idle_ms = 90'000;
  return state;
}

}  // namespace

void run(std::string_view input) {
  tools::JobPicture job;
  for (Pieces pieces(input); !pieces.empty() && job.ranks.size() < most_ranks;) {
    const std::string_view bytes = pieces.text();
    settled_value<RankState>(bytes, RankState::decode);
    tools::RankPicture rank;
    rank.rank = static_cast<Rank>(job.ranks.size());
    rank.state = RankState::decode(bytes);
    if (rank.state && rank.state->rank != rank.rank) rank.state.reset();  // as JobPicture is made
    rank.answering = rank.state ? tools::Answering::answered : tools::Answering::silent;
    if (rank.state) rank.host = rank.state->host;
    job.ranks.push_back(std::move(rank));
  }
  if (job.ranks.empty()) return;
  for (const tools::Finding& finding : tools::judge(job, 10'000)) {
    require(!finding.id.empty() && !finding.what.empty(), "a finding says what");
    require(fit_to_be_shown(finding.what) && fit_to_be_shown(finding.where), "in words that are fit to be shown");
  }
  for (const tools::RankPicture& rank : job.ranks) {
    std::string lines = tools::doing(rank);
    std::erase(lines, '\n');
    require(fit_to_be_shown(lines), "likewise");
  }
  (void)tools::job_text(job);
}

Seeds seeds() {
  return {piece(busy(0, 5).encode()) + piece(busy(1, 5).encode()) + piece(idle(2).encode()),
          piece(busy(0, 5).encode()) + piece(busy(1, 5).encode()) + piece(busy(2, 5).encode()),
          piece(idle(0).encode()) + piece("") + piece(busy(2, 7).encode())};
}

}  // namespace fabring::fuzz::rank_state

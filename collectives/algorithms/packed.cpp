// Blocks of ranks that travel together: they lie together in scratch only.

#include <algorithm>

#include "collectives/algorithms/pieces.hpp"

namespace fabring {

std::uint64_t longest_message(std::span<const Exchange> exchanges, std::uint64_t piece) {
  int longest = 0;
  for (const Exchange& exchange : exchanges) longest = std::max({longest, exchange.send.count, exchange.receive.count});
  return static_cast<std::uint64_t>(longest) * piece;
}

void packed_reduce_scatter(PlanBuilder& plan, std::span<const Exchange> exchanges) {
  const int n = plan.size();
  const Block area = plan.scratch(plan.whole());
  const auto packed = [&](Run run) { return PlanBuilder::in(area, plan.blocks(run.first, run.last)); };
  plan.bound_messages(longest_message(exchanges, message_unit));

  // What is sent first is copied first.
  const Arc first = exchanges.front().send;
  for (const Arc arc : {first, Arc{first.first + first.count, n - first.count}}) {
    for (const Run run : runs_around(arc, n)) plan.copy(packed(run), plan.input(plan.blocks(run.first, run.last)));
  }
  for (const Exchange& exchange : exchanges) {
    for (const Run run : runs_around(exchange.send, n)) plan.send(exchange.to, packed(run));
    const bool last = &exchange == &exchanges.back();
    for (const Run run : runs_around(exchange.receive, n)) {
      const Block to = last ? plan.output(plan.block(plan.rank())) : packed(run);
      plan.recv_reduce(exchange.from, to, packed(run), exchange.from < plan.rank());
    }
  }
}

void packed_all_gather(PlanBuilder& plan, std::span<const Exchange> exchanges) {
  const int n = plan.size();
  const Block area = plan.scratch(plan.whole());
  const Block own = plan.input(plan.block(plan.rank()));
  const auto packed = [&](Run run) { return PlanBuilder::in(area, plan.blocks(run.first, run.last)); };
  plan.bound_messages(longest_message(exchanges, message_unit));

  for (std::size_t round = 0; round < exchanges.size(); ++round) {
    const Exchange& exchange = exchanges[round];
    const bool alone = exchange.send.count == 1;  // its own block, and nothing else
    for (const Run run : runs_around(exchange.send, n)) plan.send(exchange.to, alone ? own : packed(run));
    for (const Run run : runs_around(exchange.receive, n)) {
      plan.recv(exchange.from, packed(run));
      plan.copy(plan.output(plan.blocks(run.first, run.last)), packed(run));
    }
    const bool packs_next = alone && round + 1 < exchanges.size() && exchanges[round + 1].send.count > 1;
    if (packs_next) plan.copy(packed({plan.rank(), plan.rank() + 1}), own);
  }
}

}  // namespace fabring

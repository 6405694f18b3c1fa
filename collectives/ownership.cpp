#include "collectives/ownership.hpp"

namespace fabring {
namespace {

enum class Share : std::uint8_t { nothing, all, own };

BlockSpan span_of(const Plan& plan, Share share) {
  const auto own = static_cast<std::uint32_t>(plan.rank);
  switch (share) {
    case Share::all:
      return {0, plan.blocks == 0 ? 1 : plan.blocks};
    case Share::own:
      return {own, own + 1};
    case Share::nothing:
      break;
  }
  return {};
}

}  // namespace

std::uint32_t block_count(Collective collective, int ranks) {
  switch (collective) {
    case Collective::reduce_scatter:
    case Collective::all_gather:
    case Collective::gather:
    case Collective::scatter:
      return static_cast<std::uint32_t>(ranks);
    case Collective::alltoall:
      return 2 * static_cast<std::uint32_t>(ranks);
    default:
      return 0;
  }
}

std::uint32_t blocks_of_call(const Plan& plan) {
  if (plan.collective == Collective::alltoall) return plan.blocks / 2;
  return plan.blocks == 0 ? 1 : plan.blocks;
}

bool has_root(Collective collective) {
  return collective == Collective::reduce || collective == Collective::broadcast || collective == Collective::gather ||
         collective == Collective::scatter;
}

bool reduces(Collective collective) {
  return collective == Collective::allreduce || collective == Collective::reduce ||
         collective == Collective::reduce_scatter;
}

BlockSpan input_blocks(const Plan& plan) {
  switch (plan.collective) {
    case Collective::broadcast:
    case Collective::scatter:
      return span_of(plan, plan.rank == plan.root ? Share::all : Share::nothing);
    case Collective::all_gather:
    case Collective::gather:
      return span_of(plan, Share::own);
    case Collective::alltoall:
      return {0, plan.blocks / 2};
    case Collective::barrier:
      return {};
    default:
      return span_of(plan, Share::all);
  }
}

BlockSpan output_blocks(const Plan& plan) {
  switch (plan.collective) {
    case Collective::reduce:
    case Collective::gather:
      return span_of(plan, plan.rank == plan.root ? Share::all : Share::nothing);
    case Collective::reduce_scatter:
    case Collective::scatter:
      return span_of(plan, Share::own);
    case Collective::alltoall:
      return {plan.blocks / 2, plan.blocks};
    case Collective::barrier:
      return {};
    default:
      return span_of(plan, Share::all);
  }
}

BlockSpan blocks_of(const Plan& plan, RangeId range) {
  for (RangeId at = range; at != 0; at = plan.ranges[at].parent) {
    const Range& shape = plan.ranges[at];
    if (shape.first == shape.last) return {};
    if (shape.parent == 0 && plan.blocks != 0) return {shape.first, shape.last};
  }
  return span_of(plan, Share::all);
}

}  // namespace fabring

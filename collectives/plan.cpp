#include "collectives/plan.hpp"

#include <algorithm>

#include "runtime/base/check.hpp"

namespace fabring {

std::string_view name(StepKind kind) {
  switch (kind) {
    case StepKind::send:
      return "send";
    case StepKind::recv:
      return "recv";
    case StepKind::recv_reduce:
      return "recv_reduce";
    case StepKind::reduce:
      return "reduce";
    case StepKind::copy:
      return "copy";
    case StepKind::finish:
      return "finish";
  }
  return "unknown";
}

Extent part(Extent whole, std::uint32_t first, std::uint32_t last, std::uint32_t parts) {
  FABRING_CHECK(first <= last && last <= parts && parts > 0);
  // index <= parts, so index * quotient <= whole.count: no product here can overflow.
  const std::size_t quotient = whole.count / parts;
  const std::size_t remainder = whole.count % parts;
  const auto begin_of = [&](std::size_t index) { return index * quotient + std::min(index, remainder); };
  return {whole.offset + begin_of(first), begin_of(last) - begin_of(first)};
}

namespace {

void bind_below(const Plan& plan, std::span<Extent> out, bool parts_of_whole) {
  for (std::size_t id = 1; id < out.size(); ++id) {
    const Range& range = plan.ranges[id];
    FABRING_CHECK(range.parent < id);
    if (range.parent == 0 && !parts_of_whole) continue;
    out[id] = part(out[range.parent], range.first, range.last, range.parts);
  }
}

}  // namespace

void Bind::operator()(const Plan& plan, std::size_t count, std::span<Extent> out) const {
  FABRING_CHECK(out.size() == plan.ranges.size() && !out.empty());
  out[0] = {0, plan.blocks == 0 ? count : count * plan.blocks};
  for (std::size_t id = 1; plan.blocks != 0 && id < out.size(); ++id) {
    const Range& range = plan.ranges[id];
    if (range.parent == 0) out[id] = {range.first * count, (range.last - range.first) * count};
  }
  bind_below(plan, out, plan.blocks == 0);
}

void Bind::operator()(const Plan& plan, std::span<const std::size_t> counts, std::span<Extent> out) const {
  FABRING_CHECK(out.size() == plan.ranges.size() && !out.empty() && (plan.blocks == 0 || counts.size() == plan.blocks));
  std::vector<std::size_t> begin(counts.size() + 1);
  for (std::size_t i = 0; i < counts.size(); ++i) begin[i + 1] = begin[i] + counts[i];
  out[0] = {0, begin.back()};
  for (std::size_t id = 1; id < out.size(); ++id) {
    const Range& range = plan.ranges[id];
    if (range.parent != 0) continue;
    FABRING_CHECK(range.parts == counts.size() || plan.blocks != 0);
    out[id] = {begin[range.first], begin[range.last] - begin[range.first]};
  }
  bind_below(plan, out, false);
}

namespace {

/// `inner` is `outer`, lies in it, or is made of parts that `outer` has too.
bool lies_inside(const Plan& plan, RangeId inner, RangeId outer) {
  const Range& around = plan.ranges[outer];
  for (RangeId at = inner;; at = plan.ranges[at].parent) {
    if (at == outer) return true;
    if (at == 0) return false;
    const Range& range = plan.ranges[at];
    if (range.parent == around.parent && range.parts == around.parts && outer != 0 && around.first <= range.first &&
        range.last <= around.last) {
      return true;
    }
  }
}

}  // namespace

bool lies_in_place(const Plan& plan, const Block& block) {
  return lies_inside(plan, block.range, plan.scratch[block.scratch]);
}

Extent scratch_extent(const Plan& plan, std::span<const Extent> extents, const Block& block) {
  const RangeId declared = plan.scratch[block.scratch];
  const Extent& extent = extents[block.range];
  if (block.range == declared || !lies_in_place(plan, block)) return {0, extent.count};
  return {extent.offset - extents[declared].offset, extent.count};
}

void scratch_lengths(const Plan& plan, std::span<const Extent> extents, std::span<std::size_t> out) {
  FABRING_CHECK(out.size() == plan.scratch.size());
  for (std::size_t area = 0; area < out.size(); ++area) out[area] = extents[plan.scratch[area]].count;
  const auto need = [&](const Block& block) {
    if (block.space != Space::scratch) return;
    out[block.scratch] = std::max(out[block.scratch], scratch_extent(plan, extents, block).end());
  };
  for (const Step& step : plan.steps) {
    for (const Block& block : reads(plan, step)) need(block);
    for (const Block& block : writes(step)) need(block);
  }
}

std::span<const Block> reads(const Plan& plan, const Step& step) {
  switch (step.kind) {
    case StepKind::send:
    case StepKind::recv_reduce:
    case StepKind::copy:
      return {&step.from, 1};
    case StepKind::reduce:
      return {plan.operands.data() + step.first_operand, step.operand_count};
    case StepKind::finish:
      return {&step.to, 1};
    case StepKind::recv:
      break;
  }
  return {};
}

std::span<const Block> writes(const Step& step) {
  if (step.kind == StepKind::send) return {};
  return {&step.to, 1};
}

std::uint64_t longest_own_message(const Plan& plan) {
  std::vector<Extent> extents(plan.ranges.size());
  bind(plan, message_unit, extents);
  std::uint64_t longest = 0;
  for (const Step& step : plan.steps) {
    if (step.kind == StepKind::send) longest = std::max<std::uint64_t>(longest, extents[step.from.range].count);
    if (step.kind == StepKind::recv || step.kind == StepKind::recv_reduce) {
      longest = std::max<std::uint64_t>(longest, extents[step.to.range].count);
    }
  }
  return longest;
}

}  // namespace fabring

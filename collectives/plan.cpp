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

void bind_below(const Plan& plan, std::span<Extent> out) {
  for (std::size_t id = 1; id < out.size(); ++id) {
    const Range& range = plan.ranges[id];
    FABRING_CHECK(range.parent < id);
    if (range.parent == 0 && plan.blocks != 0) continue;
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
  bind_below(plan, out);
}

void Bind::operator()(const Plan& plan, std::span<const std::size_t> counts, std::span<Extent> out) const {
  FABRING_CHECK(out.size() == plan.ranges.size() && !out.empty() && counts.size() == plan.blocks);
  std::vector<std::size_t> begin(counts.size() + 1);
  for (std::size_t i = 0; i < counts.size(); ++i) begin[i + 1] = begin[i] + counts[i];
  out[0] = {0, begin.back()};
  for (std::size_t id = 1; id < out.size(); ++id) {
    const Range& range = plan.ranges[id];
    if (range.parent == 0) out[id] = {begin[range.first], begin[range.last] - begin[range.first]};
  }
  bind_below(plan, out);
}

}  // namespace fabring

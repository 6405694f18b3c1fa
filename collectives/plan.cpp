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

void Bind::operator()(const Plan& plan, std::size_t count, std::span<Extent> out) const {
  FABRING_CHECK(out.size() == plan.ranges.size() && !out.empty());
  out[0] = {0, count};
  for (std::size_t id = 1; id < out.size(); ++id) {
    const Range& range = plan.ranges[id];
    FABRING_CHECK(range.parent < id);
    out[id] = part(out[range.parent], range.first, range.last, range.parts);
  }
}

}  // namespace fabring

#include "tools/fabring/perf/perf_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/base/parse_value.hpp"
#include "tools/fabring/call_sizes.hpp"

namespace fabring::tools {

std::optional<DataType> wire_type_of(Collective collective, const PerfOptions& options,
                                     std::optional<DataType> setting) {
  const bool adds = options.op == ReduceOp::sum || options.op == ReduceOp::avg || options.op == ReduceOp::premul_sum;
  if (options.type != DataType::float32 || !adds) return std::nullopt;
  const bool allreduce = collective == Collective::allreduce;
  if (options.wire_type && *options.wire_type != options.type &&
      (allreduce || collective == Collective::reduce || collective == Collective::reduce_scatter))
    return options.wire_type;
  return allreduce && !options.wire_type ? setting : std::nullopt;
}

std::string_view memory_word(const PerfOptions& options) {
  return options.device ? "cuda" : options.mapped ? "mapped" : "host";
}

Result<std::vector<std::size_t>> parse_sizes(const std::string& text) {
  auto items = parse_list(text);
  if (!items) return items.error();
  std::vector<std::size_t> sizes;
  for (const std::string& item : *items) {
    auto size = parse_size(item);
    if (!size) return size.error();
    sizes.push_back(static_cast<std::size_t>(*size));
  }
  return sizes;
}

Result<std::vector<std::size_t>> size_steps(const std::string& first, const std::string& last, double factor) {
  auto low = parse_size(first);
  if (!low) return low.error().with_prefix("-b: ");
  auto high = parse_size(last);
  if (!high) return high.error().with_prefix("-e: ");
  if (!(factor > 1.0)) return Status(ErrorCode::invalid_argument, fmt::format("-f {}: must be more than 1", factor));
  if (*high < *low) return Status(ErrorCode::invalid_argument, fmt::format("-e {} is less than -b {}", last, first));
  std::vector<std::size_t> sizes;
  for (double size = static_cast<double>(*low); size <= static_cast<double>(*high); size = std::floor(size * factor)) {
    sizes.push_back(static_cast<std::size_t>(size));
    if (std::floor(size * factor) <= size) size += 1;  // 0 and small sizes with a factor below 2 would stand still
    constexpr std::size_t most = 10'000;
    if (sizes.size() > most) return Status(ErrorCode::invalid_argument, "more than 10000 sizes; take a larger -f");
  }
  return sizes;
}

std::vector<std::size_t> whole_elements(const std::vector<std::size_t>& sizes, DataType type) {
  std::vector<std::size_t> whole;
  for (std::size_t size : sizes) {
    const auto rounded = static_cast<std::size_t>(bytes_of_call(size, size_of(type), 1));
    if (std::find(whole.begin(), whole.end(), rounded) == whole.end()) whole.push_back(rounded);
  }
  return whole;
}

}  // namespace fabring::tools

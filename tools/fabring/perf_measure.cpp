#include "tools/fabring/perf_measure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/base/parse_value.hpp"

namespace fabring::tools {

Result<Measuring> Measuring::prepare(Engine& engine, const PerfOptions& options, bool both_ways) {
  Measuring measuring(engine, options);
  std::size_t largest = 0;
  for (std::size_t size : options.sizes) largest = std::max(largest, measuring.shape_of(size).bytes());
  const bool needs_input = both_ways || !options.in_place;
  measuring.output_ = page_buffer(largest);
  if (needs_input) measuring.input_ = page_buffer(largest);
  if (!measuring.output_ || (needs_input && !measuring.input_))
    return Status(ErrorCode::out_of_memory,
                  fmt::format("no memory for {} buffers of {}", needs_input ? 2 : 1, size_text(largest)));
  return measuring;
}

PerfShape Measuring::shape_of(std::size_t bytes) const {
  PerfShape shape = PerfShape::of(options_->collective, bytes, options_->type, options_->op, world_.rank(),
                                  world_.size(), options_->root);
  shape.wire_type = wire_type_;
  return shape;
}

Result<std::uint64_t> Measuring::wrong_elements(const PerfShape& shape, bool in_place, std::uint32_t seed) {
  const PerfData data(shape, seed);
  data.fill(input_.get(), output_.get(), in_place);
  FABRING_TRY(world_.run(shape.operation(input_.get(), output_.get(), in_place)));
  std::uint64_t mine = data.wrong(input_.get(), output_.get(), in_place), all = 0;
  FABRING_TRY(world_.allreduce(&mine, &all, 1, DataType::uint64, ReduceOp::sum));
  return all;
}

// Data on which calls can be repeated without end; and the pages exist before the clock runs.
void Measuring::fill_for_timing(const PerfShape& shape, bool in_place) {
  if (in_place) return fill_stable(output_.get(), shape.large(), shape.type, shape.op);
  PerfData(shape, 0).fill(input_.get(), output_.get(), false);
}

Result<Measurement> Measuring::run(std::size_t bytes, bool in_place) {
  const PerfShape shape = shape_of(bytes);
  const Operation operation = shape.operation(input_.get(), output_.get(), in_place);
  Measurement result;
  result.bytes = shape.bytes();
  result.count = shape.count;
  result.in_place = in_place;
  result.algorithm = world_.explain(operation).algorithm;
  if (options_->check) {
    auto wrong = wrong_elements(shape, in_place, 1);
    if (!wrong) return wrong.error();
    result.wrong = *wrong;
  }
  fill_for_timing(shape, in_place);
  for (int i = 0; i < options_->warm_up; ++i) FABRING_TRY(world_.run(operation));

  const auto call = [&] { return world_.run(operation); };
  int calls = options_->calls;
  if (options_->repetitions > 0) {
    auto agreed = stopwatch_.calls_filling(call, options_->target, options_->repetitions, options_->cap);
    if (!agreed) return agreed.error();
    calls = *agreed;
  }
  const bool each_call =
      options_->repetitions == 0 && (options_->format == Format::csv || options_->format == Format::json);
  std::vector<double> each;
  const int repetitions = std::max(options_->repetitions, 1);
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    auto total = stopwatch_.time(call, calls, each_call ? &each : nullptr);
    if (!total) return total.error();
    result.repetitions_us.push_back(total->seconds / calls * 1e6);
    result.wire_bytes_per_rank = static_cast<std::uint64_t>(std::llround(total->wire_bytes_sent / calls));
  }
  std::vector<double> sorted = result.repetitions_us;
  result.time_us = percentile(sorted, 0.5);
  result.p50_us = percentile(each, 0.50) * 1e6;
  result.p99_us = percentile(each, 0.99) * 1e6;
  if (options_->check) {
    auto wrong = wrong_elements(shape, in_place, 2);
    if (!wrong) return wrong.error();
    result.wrong += *wrong;
  }
  return result;
}

}  // namespace fabring::tools

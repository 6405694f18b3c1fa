#include "tools/fabring/perf_measure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>

#include "runtime/base/parse_value.hpp"

namespace fabring::tools {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

constexpr int most_calls = 20'000;  // of a repetition; as the peers' drivers

double percentile(std::vector<double>& values, double share) {
  if (values.empty()) return 0;
  const auto at = static_cast<std::ptrdiff_t>(std::ceil(share * static_cast<double>(values.size())) - 1);
  const auto place = values.begin() + std::clamp<std::ptrdiff_t>(at, 0, static_cast<std::ptrdiff_t>(values.size()) - 1);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

}  // namespace

void Measuring::Free::operator()(std::byte* buffer) const { std::free(buffer); }

Result<Measuring> Measuring::prepare(Engine& engine, const PerfOptions& options, bool both_ways) {
  constexpr std::size_t page = 4096;
  Measuring measuring(engine, options);
  std::size_t largest = page;
  for (std::size_t size : options.sizes) largest = std::max(largest, measuring.shape_of(size).bytes());
  largest = (largest + page - 1) / page * page;
  const auto allocate = [&] { return Buffer(static_cast<std::byte*>(std::aligned_alloc(page, largest))); };
  const bool needs_input = both_ways || !options.in_place;
  measuring.output_ = allocate();
  if (needs_input) measuring.input_ = allocate();
  if (!measuring.output_ || (needs_input && !measuring.input_))
    return Status(ErrorCode::out_of_memory,
                  fmt::format("no memory for {} buffers of {}", needs_input ? 2 : 1, size_text(largest)));
  return measuring;
}

PerfShape Measuring::shape_of(std::size_t bytes) const {
  return PerfShape::of(options_->collective, bytes, options_->type, options_->op, world_.rank(), world_.size(),
                       options_->root);
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

Result<Measuring::Timed> Measuring::timed(const Operation& operation, int calls, std::vector<double>* each) {
  FABRING_TRY(world_.barrier());
  const std::uint64_t sent_before = engine_->traffic().wire_bytes_sent;
  const Clock::time_point start = Clock::now();
  if (each == nullptr) {
    for (int i = 0; i < calls; ++i) FABRING_TRY(world_.run(operation));
  } else {
    Clock::time_point last = start;
    for (double& duration : *each) {
      FABRING_TRY(world_.run(operation));
      const Clock::time_point now = Clock::now();
      duration = std::chrono::duration<double>(now - last).count();
      last = now;
    }
  }
  const double mine[2] = {seconds_since(start), static_cast<double>(engine_->traffic().wire_bytes_sent - sent_before)};
  double most[2] = {0, 0};
  FABRING_TRY(world_.allreduce(mine, most, 2, DataType::float64, ReduceOp::max));
  return Timed{most[0], most[1]};
}

Result<int> Measuring::calibrated_calls(const Operation& operation) {
  const double target = std::chrono::duration<double>(options_->target).count();
  const double cap = std::chrono::duration<double>(options_->cap).count();
  double one = 0;
  for (int calls = 2;; calls *= 4) {
    auto total = timed(operation, calls, nullptr);
    if (!total) return total.error();
    one = std::max(total->seconds / calls, 1e-9);
    if (total->seconds > 0.05 * target || calls * 4 > most_calls) break;
  }
  const auto bounded = [](double calls, int least) {
    return static_cast<int>(std::clamp(calls, double(least), double(most_calls)));
  };
  const int wanted = bounded(target / one, 3);
  return one * wanted * options_->repetitions > cap ? bounded(cap / one / options_->repetitions, 1) : wanted;
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

  std::vector<double> each;
  int calls = options_->calls;
  if (options_->repetitions > 0) {
    auto agreed = calibrated_calls(operation);
    if (!agreed) return agreed.error();
    calls = *agreed;
  } else if (options_->format == Format::csv || options_->format == Format::json) {
    each.resize(static_cast<std::size_t>(calls));
  }
  const int repetitions = std::max(options_->repetitions, 1);
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    auto total = timed(operation, calls, each.empty() ? nullptr : &each);
    if (!total) return total.error();
    result.repetitions_us.push_back(total->seconds / calls * 1e6);
    result.wire_bytes_per_rank = static_cast<std::uint64_t>(std::llround(total->wire_bytes_sent / calls));
  }
  std::vector<double> sorted = result.repetitions_us;
  result.time_us = percentile(sorted, 0.5);
  if (!each.empty()) {
    std::vector<double> slowest(each.size());
    FABRING_TRY(world_.allreduce(each.data(), slowest.data(), each.size(), DataType::float64, ReduceOp::max));
    result.p50_us = percentile(slowest, 0.50) * 1e6;
    result.p99_us = percentile(slowest, 0.99) * 1e6;
  }
  if (options_->check) {
    auto wrong = wrong_elements(shape, in_place, 2);
    if (!wrong) return wrong.error();
    result.wrong += *wrong;
  }
  return result;
}

}  // namespace fabring::tools

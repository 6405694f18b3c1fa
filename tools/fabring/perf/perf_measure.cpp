#include "tools/fabring/perf/perf_measure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/base/parse_value.hpp"
#include "tools/fabring/perf/timed_calls.hpp"

namespace fabring::tools {

Result<Measuring> Measuring::prepare(Engine& engine, Communicator measured, const PerfOptions& options, bool both_ways,
                                     std::shared_ptr<DeviceMemory> device) {
  Measuring measuring(engine, std::move(measured), options);
  std::size_t largest = 0;
  for (std::size_t size : options.sizes) largest = std::max(largest, measuring.shape_of(size).bytes());
  const bool needs_input = both_ways || !options.in_place;
  for (MeasuredMemory* buffer : {&measuring.output_, &measuring.input_}) {
    if (buffer == &measuring.input_ && !needs_input) continue;
    auto memory = measured_memory(engine, options, largest);
    if (!memory) return memory.error();
    *buffer = std::move(*memory);
  }
  if (device) {
    auto output = device->allocate(largest), input = device->allocate(needs_input ? largest : 0);
    if (!output) return output.error();
    if (!input) return input.error();
    measuring.device_ = std::move(device);
    measuring.device_output_ = *output;
    measuring.device_input_ = *input;
  }
  return measuring;
}

Operation Measuring::operation(const PerfShape& shape, bool in_place) const {
  return device_ ? shape.operation(device_input_, device_output_, in_place)
                 : shape.operation(input_.get(), output_.get(), in_place);
}

Status Measuring::upload(const PerfShape& shape, bool in_place) {
  if (!device_) return {};
  if (!in_place) FABRING_TRY(device_->copy(device_input_, input_.get(), shape.bytes()));
  return device_->copy(device_output_, output_.get(), shape.bytes());
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
  FABRING_TRY(upload(shape, in_place));
  FABRING_TRY(measured_.run(operation(shape, in_place)));
  if (device_) {
    std::memset(output_.get(), 0x5a, shape.bytes());
    if (!in_place) FABRING_TRY(device_->copy(input_.get(), device_input_, shape.bytes()));
    FABRING_TRY(device_->copy(output_.get(), device_output_, shape.bytes()));
  }
  std::uint64_t mine = data.wrong(input_.get(), output_.get(), in_place), all = 0;
  FABRING_TRY(world_.allreduce(&mine, &all, 1, DataType::uint64, ReduceOp::sum));
  return all;
}

// Data on which calls can be repeated without end; and the pages exist before the clock runs.
Status Measuring::fill_for_timing(const PerfShape& shape, bool in_place) {
  if (in_place) {
    fill_stable(output_.get(), shape.large(), shape.type, shape.op);
  } else {
    PerfData(shape, 0).fill(input_.get(), output_.get(), false);
  }
  return upload(shape, in_place);
}

Result<Measurement> Measuring::run(std::size_t bytes, bool in_place) {
  const PerfShape shape = shape_of(bytes);
  const Operation measured = operation(shape, in_place);
  Measurement result;
  result.bytes = shape.bytes();
  result.count = shape.count;
  result.in_place = in_place;
  result.algorithm = measured_.explain(measured).algorithm;
  if (options_->check) {
    auto wrong = wrong_elements(shape, in_place, 1);
    if (!wrong) return wrong.error();
    result.wrong = *wrong;
  }
  FABRING_TRY(fill_for_timing(shape, in_place));
  for (int i = 0; i < options_->warm_up; ++i) FABRING_TRY(measured_.run(measured));

  const auto slowest = time_calls(
      stopwatch_, [&] { return measured_.run(measured); }, *options_, false, result);
  if (!slowest) return slowest.error();
  if (options_->check) {
    auto wrong = wrong_elements(shape, in_place, 2);
    if (!wrong) return wrong.error();
    result.wrong += *wrong;
  }
  return result;
}

}  // namespace fabring::tools

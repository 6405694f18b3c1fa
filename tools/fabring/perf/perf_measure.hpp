#pragma once
// Measuring one collective at one size: checked, timed (Stopwatch), checked again.

#include <cstddef>

#include "fabring/communicator.hpp"
#include "tools/fabring/perf/device_memory.hpp"
#include "tools/fabring/perf/measured_memory.hpp"
#include "tools/fabring/perf/perf_data.hpp"
#include "tools/fabring/perf/perf_options.hpp"
#include "tools/fabring/perf/perf_report.hpp"
#include "tools/fabring/stopwatch.hpp"

namespace fabring::tools {

class Measuring {
 public:
  /// Buffers for the largest size, of calls on `measured`, which has all ranks. Errors: out_of_memory.
  static Result<Measuring> prepare(Engine& engine, Communicator measured, const PerfOptions& options, bool both_ways,
                                   std::shared_ptr<DeviceMemory> device);

  /// How a size would run.
  Choice explain(std::size_t bytes) const { return measured_.explain(operation(shape_of(bytes), input_ == nullptr)); }

  /// What is measured for a size.
  std::size_t measured_bytes(std::size_t bytes) const { return shape_of(bytes).bytes(); }
  /// Into how many blocks that divides.
  std::size_t blocks() const { return shape_of(0).blocks(); }

  /// Checks, warms up, times, checks again.
  Result<Measurement> run(std::size_t bytes, bool in_place);

 private:
  Measuring(Engine& engine, Communicator measured, const PerfOptions& options)
      : world_(engine.world()),
        measured_(std::move(measured)),
        stopwatch_(engine),
        options_(&options),
        wire_type_(wire_type_of(options.collective, options, engine.config().wire_type)) {}

  PerfShape shape_of(std::size_t bytes) const;
  Result<std::uint64_t> wrong_elements(const PerfShape& shape, bool in_place, std::uint32_t seed);
  /// Over the buffers that are measured: of the device, if there is one.
  Operation operation(const PerfShape& shape, bool in_place) const;
  Status upload(const PerfShape& shape, bool in_place);
  Status fill_for_timing(const PerfShape& shape, bool in_place);

  Communicator world_;  // for what ranks tell each other
  Communicator measured_;
  Stopwatch stopwatch_;
  const PerfOptions* options_;
  std::optional<DataType> wire_type_;
  MeasuredMemory input_, output_;
  std::shared_ptr<DeviceMemory> device_;  // null: the host's memory
  std::byte* device_input_ = nullptr;
  std::byte* device_output_ = nullptr;
};

}  // namespace fabring::tools

#pragma once
// Measuring one collective at one size, as the peers are measured: all ranks wait for each other, make the calls back
// to back, and the slowest rank's total counts. What ranks must agree on (number of calls) and what is combined (times,
// wrong elements) goes through allreduce itself, never inside the timed loop.

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "fabring/communicator.hpp"
#include "tools/fabring/perf_data.hpp"
#include "tools/fabring/perf_options.hpp"
#include "tools/fabring/perf_report.hpp"

namespace fabring::tools {

class Measuring {
 public:
  /// Buffers for the largest size. Errors: out_of_memory.
  static Result<Measuring> prepare(Engine& engine, const PerfOptions& options, bool both_ways);

  /// How a size would run.
  Choice explain(std::size_t bytes) const {
    return world_.explain(shape_of(bytes).operation(input_.get(), output_.get(), input_ == nullptr));
  }

  /// Checks, warms up, times, checks again.
  Result<Measurement> run(std::size_t bytes, bool in_place);

 private:
  struct Free {
    void operator()(std::byte* buffer) const;
  };
  using Buffer = std::unique_ptr<std::byte, Free>;
  Measuring(Engine& engine, const PerfOptions& options)
      : engine_(&engine), world_(engine.world()), options_(&options) {}

  PerfShape shape_of(std::size_t bytes) const;
  Result<std::uint64_t> wrong_elements(const PerfShape& shape, bool in_place, std::uint32_t seed);
  void fill_for_timing(const PerfShape& shape, bool in_place);
  struct Timed {
    double seconds = 0;          ///< of the slowest rank
    double wire_bytes_sent = 0;  ///< by the rank that sent most
  };
  /// So many calls, back to back; the time of every single one into `each` if it is not null.
  Result<Timed> timed(const Operation& operation, int calls, std::vector<double>* each);
  Result<int> calibrated_calls(const Operation& operation);

  Engine* engine_;
  Communicator world_;
  const PerfOptions* options_;
  Buffer input_, output_;
};

}  // namespace fabring::tools

#pragma once
// How `fabring perf --model` prints its steps.

#include <cstdint>
#include <string>

#include "tools/fabring/perf/perf_options.hpp"
#include "tools/fabring/perf/perf_report.hpp"

namespace fabring::tools {

/// How the gradients of a step are summed: by buckets; a call for each tensor, all begun before the first is waited
/// for, or one after the other; one call for all.
enum class Calls : std::uint8_t { buckets, together, in_turn, grouped };
std::string calls_text(Calls calls);  // "one tensor", "one, in turn", "all, grouped"

/// The communication of one training step, measured in one way.
struct ModelStep {
  Calls kind = Calls::buckets;
  std::size_t bucket = 0;  ///< bytes that were fused, at least; 0: a call for each tensor
  std::size_t calls = 0;   ///< of a step
  Rank slowest_rank = 0;
  Measurement measured = {};  ///< of whole steps, all gradients together; `algorithm`: all that were used
};

class ModelReport {
 public:
  struct Size {
    std::size_t tensors = 0;
    std::uint64_t parameters = 0;
  };
  ModelReport(const PerfOptions& options, const JobFacts& facts, Size size)
      : options_(options), facts_(facts), size_(size) {}
  std::string header() const;
  /// Where a line has nothing but size and time (plain, osu) only that of the buckets.
  std::string row(const ModelStep& step, bool first) const;
  std::string footer() const;

 private:
  const PerfOptions& options_;
  const JobFacts& facts_;
  Size size_;
};

}  // namespace fabring::tools

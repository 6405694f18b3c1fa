#pragma once
// How `fabring perf` prints its measurements, by format. Only rank 0 prints.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fabring/communicator.hpp"
#include "tools/fabring/perf/perf_options.hpp"
#include "tools/fabring/svg.hpp"

namespace fabring::tools {

/// One size, measured in one way. Times are those of the slowest rank.
struct Measurement {
  std::size_t bytes = 0;
  std::size_t count = 0;
  bool in_place = false;
  double time_us = 0;                     ///< per call; of several repetitions the median
  std::vector<double> repetitions_us;     ///< each one's, in order
  double p50_us = 0, p99_us = 0;          ///< of single calls beside those; with repetitions of theirs
  std::uint64_t wrong = 0;                ///< elements, on all ranks
  std::uint64_t wire_bytes_per_rank = 0;  ///< sent per call, by the rank that sent most
  std::string algorithm;
};

/// What is the same for all sizes.
struct JobFacts {
  int ranks = 1;
  int nodes = 1;
  std::string transport;
  int lanes = 1;
  std::vector<std::string> report;         ///< of the engine, a line each
  std::string memory = {};                 ///< "memory of " a GPU, "mapped memory"; empty: ordinary
  std::optional<DataType> wire_type = {};  ///< as what elements travel, if not as their type
  std::vector<int> ranks_of_nodes = {};    ///< where these are unequal, and no node's ranks lie between another's
};

/// Times as nccl-tests prints them: as many decimals as fit.
std::string microseconds_text(double us);
/// As what elements travel: their own type, unless another was asked for.
std::string_view travelling_type(const PerfOptions& options, const JobFacts& facts);
/// JSON writes all digits of a double; nobody measured those.
double rounded(double value, double digits);
/// "# fabring allreduce: 4 ranks on 2 nodes, transport tcp".
std::string job_line(std::string_view what, const JobFacts& facts);

/// " predicted 430 us, measured 404 us (1.06x)". Only ordinary memory is priced.
std::string prediction_text(double predicted_us, double measured_us, bool mapped);

/// What was predicted beside what was measured, a line for each measurement and one for all.
class PredictionLines {
 public:
  /// Only ordinary memory is priced; which buffers are mapped one rank alone knows.
  explicit PredictionLines(bool mapped = false) : mapped_(mapped) {}
  /// "1 MiB in place: ring predicted 430 us, measured 404 us (0.94x)"
  std::string add(const Choice& choice, const Measurement& measurement);
  std::string summary() const;

 private:
  bool mapped_;
  std::size_t compared_ = 0;
  std::size_t close_ = 0;  ///< predictions of 0.8 to 1.2 times what was measured
  double worst_ = 1;       ///< predicted / measured
  std::string worst_at_;
};

/// Does it print p50 and p99?
bool shows_percentiles(Format format);

// A measurement in each format but the table, as every kind prints it. Fields of a kind's own come behind these.
extern const char* const csv_columns;
std::string csv_fields(const PerfOptions& options, const JobFacts& facts, const Measurement& measurement);
nlohmann::ordered_json json_object(const PerfOptions& options, const JobFacts& facts, const Measurement& measurement);
std::string plain_lines(const Measurement& measurement, double bus_factor);  ///< one for each repetition
std::string osu_header(std::string_view what, const PerfOptions& options, const JobFacts& facts);
std::string osu_line(const Measurement& measurement);

/// busbw over the size, out of place and in place.
Chart bandwidth_chart(const PerfOptions& options, const JobFacts& facts, const std::vector<Measurement>& measurements);

class PerfReport {
 public:
  PerfReport(const PerfOptions& options, JobFacts facts) : options_(options), facts_(std::move(facts)) {}
  std::string header() const;
  /// A size is finished: one measurement, or for the table two, out of place and in place.
  std::string size_done(const std::vector<Measurement>& measurements);
  std::string footer() const;

 private:
  std::string table_line(const std::vector<Measurement>& measurements) const;
  const PerfOptions& options_;
  JobFacts facts_;
  bool first_ = true;
  std::uint64_t wrong_ = 0;
  double bus_sum_ = 0;
  int bus_count_ = 0;
};

}  // namespace fabring::tools

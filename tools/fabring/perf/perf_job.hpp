#pragma once
// PerfJob: one rank of a measurement: its engine, what is the same for everything it measures, and where the results
// go. Only rank 0 writes; its files are opened before it meets the others.

#include <memory>
#include <optional>
#include <string>

#include "fabring/communicator.hpp"
#include "runtime/base/settings.hpp"
#include "tools/fabring/command.hpp"
#include "tools/fabring/output.hpp"
#include "tools/fabring/perf/device_memory.hpp"
#include "tools/fabring/perf/perf_options.hpp"
#include "tools/fabring/perf/perf_report.hpp"
#include "tools/fabring/plan/file_plans.hpp"
#include "tools/fabring/progress_notes.hpp"

namespace fabring::tools {

class PerfJob {
 public:
  /// The rank that `environment` names. Errors: those of the settings.
  static Result<std::unique_ptr<PerfJob>> of_environment(const PerfOptions& options, const Environment& environment);
  /// Whether this rank can do its part: its files, its GPU. Whatever the answer, meet() is next.
  Status prepare();
  /// Collective: `own` is what prepare() said. Errors: as start_together().
  Status meet(const Status& own);

  const PerfOptions& options() const { return options_; }
  Engine& engine() { return *engine_; }
  /// Null unless buffers are to be in memory of a GPU.
  const std::shared_ptr<DeviceMemory>& device() const { return device_; }
  Communicator world() { return engine_->world(); }
  /// That on which calls are measured: world, or one that runs the plans of a file.
  Communicator measured() { return measured_; }
  const JobFacts& facts() const { return facts_; }
  int rank() const { return rank_; }
  bool writes() const { return rank_ == 0; }
  void write(const std::string& text);

  /// A line on stderr while a long run says nothing: every second on a terminal, every 15 s elsewhere.
  void tell_progress(const std::string& text);

  /// Instead of finish(), when a measurement ended with an error: what was written so far is a whole document.
  void break_off();

  /// Flushes the output, draws the picture if one was wanted, leaves the job.
  Status finish(const std::string& picture = {});

 private:
  PerfJob(const PerfOptions& options, Config config);
  const PerfOptions& options_;
  Config config_;
  const int rank_;
  Output out_, plot_;
  std::shared_ptr<DeviceMemory> device_;  // outlives what the engine does with it
  std::unique_ptr<Engine> engine_;
  std::optional<FilePlans> plans_;
  Communicator measured_;
  JobFacts facts_;
  ProgressNotes notes_;
  bool open_array_ = false;  // of JSON: begun, and without its end
};

/// The three kinds of measurement. How many results were wrong, or too slow; the same on every rank.
Result<std::uint64_t> measure_sizes(PerfJob& job);  // perf_sizes.cpp
Result<std::uint64_t> measure_model(PerfJob& job);  // perf_model.cpp
Result<std::uint64_t> measure_guard(PerfJob& job);  // perf_guard.cpp

}  // namespace fabring::tools

#pragma once
// Forecast: what `fabring simulate` computes: the time of a collective by an algorithm for a world, a size and a
// machine. Plans are made once for each (algorithm, world) and kept for the sizes that follow, unless they are very
// long.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "collectives/algorithms.hpp"
#include "collectives/cost/machine.hpp"
#include "simulation/simulate.hpp"
#include "tools/fabring/node_layout.hpp"

namespace fabring::tools {

struct ForecastOptions {
  Collective collective = Collective::allreduce;
  Machine machine;
  simulation::Stragglers stragglers;
  std::uint32_t element_bytes = 4;
  /// An algorithm whose price is above this many times that of the best is priced only.
  double simulate_up_to = 50;
};

/// The note where that is so.
inline constexpr char far_behind[] = "far behind: priced, not simulated";
/// And where ranks are late, so that the price says nothing.
inline constexpr char far_behind_without_stragglers[] =
    "far behind by its price, which knows of no stragglers; --algorithm with it alone simulates it";

/// One world, size and algorithm.
struct Forecast {
  Algorithm algorithm = Algorithm::ring;
  int nodes = 1;
  int ranks = 1;
  std::uint64_t bytes = 0;                     ///< call_bytes()
  std::optional<Nanoseconds> predicted;        ///< in closed form
  std::optional<simulation::Outcome> outcome;  ///< of the plans
  std::string note;                            ///< why there is no outcome
  bool late = false;                           ///< ranks may be: of that prices know nothing
  std::vector<int> ranks_of_nodes = {};        ///< where these are unequal
  /// The simulated time, or else the price, where it stands for the same; none if there is neither.
  std::optional<Nanoseconds> time() const {
    if (outcome) return outcome->time_ns;
    return late ? std::nullopt : predicted;
  }
  bool priced() const { return !outcome && time().has_value(); }
  bool extrapolated() const { return outcome && outcome->extrapolated(); }
};

inline double microseconds(Nanoseconds time) { return static_cast<double>(time) / 1e3; }

class Forecaster {
 public:
  /// `begins` hears of each forecast before it is made, which can take long.
  explicit Forecaster(ForecastOptions options, std::function<void(const Forecast&)> begins = {})
      : options_(std::move(options)), begins_(std::move(begins)) {}
  const ForecastOptions& options() const { return options_; }

  std::vector<Forecast> all(const std::vector<Algorithm>& algorithms, const NodeLayout& world, std::uint64_t bytes);
  Forecast one(Algorithm algorithm, const NodeLayout& world, std::uint64_t bytes);

 private:
  Result<const simulation::Schedule*> schedule(Algorithm algorithm, const NodeLayout& world);
  /// What is known before anything is simulated; `bytes` as of call_bytes().
  Forecast priced(Algorithm algorithm, const NodeLayout& world, std::uint64_t bytes) const;

  ForecastOptions options_;
  std::function<void(const Forecast&)> begins_;
  std::optional<NodeLayout> world_;  // of the schedules kept
  std::map<Algorithm, Result<simulation::Schedule>> schedules_;
};

/// Of the call that is meant by `bytes`, as `fabring perf` makes it (bytes_of_call()); a barrier has no bytes.
std::uint64_t call_bytes(const ForecastOptions& options, int ranks, std::uint64_t bytes);
/// changed_size() of that.
std::string changed_call(const ForecastOptions& options, int ranks, std::uint64_t bytes);

}  // namespace fabring::tools

#pragma once
// Forecast: what `fabring simulate` computes: the time of a collective by an algorithm for a world, a size and a
// machine. Plans are made once for each (algorithm, world) and kept for the sizes that follow, unless they are very
// long.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectives/algorithms.hpp"
#include "collectives/cost/machine.hpp"
#include "simulation/simulate.hpp"

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

  /// Equal nodes, filled in the order of the ranks.
  std::vector<Forecast> all(const std::vector<Algorithm>& algorithms, int nodes, int ranks_per_node,
                            std::uint64_t bytes);
  Forecast one(Algorithm algorithm, int nodes, int ranks_per_node, std::uint64_t bytes);

 private:
  Result<const simulation::Schedule*> schedule(Algorithm algorithm, int nodes, int ranks_per_node);

  ForecastOptions options_;
  std::function<void(const Forecast&)> begins_;
  std::pair<int, int> world_;  // of the schedules kept
  std::map<Algorithm, Result<simulation::Schedule>> schedules_;
};

std::vector<int> equal_nodes(int nodes, int ranks_per_node);

/// Of the call that is meant by `bytes`, as `fabring perf` makes it (bytes_of_call()); a barrier has no bytes.
std::uint64_t call_bytes(const ForecastOptions& options, int ranks, std::uint64_t bytes);
/// changed_size() of that.
std::string changed_call(const ForecastOptions& options, int ranks, std::uint64_t bytes);

}  // namespace fabring::tools

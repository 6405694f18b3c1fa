#pragma once
// Stopwatch: times calls as the peers' drivers do: all ranks wait for each other, make the calls back to back, and the
// slowest rank's total counts. What it returns is the same on every rank, so that ranks can decide by it. Every rank
// calls its functions together.

#include <chrono>
#include <functional>
#include <vector>

#include "fabring/communicator.hpp"

namespace fabring::tools {

/// So many repetitions of so many calls.
struct Filling {
  int calls = 1, repetitions = 1;
  friend bool operator==(const Filling&, const Filling&) = default;
};
/// Repetitions of about `target`, of 3 calls at least, where a call takes `one` seconds; where `repetitions` of them
/// would last longer than `cap` fewer calls, and where not even single ones fit fewer repetitions.
Filling filling_of(double one, std::chrono::milliseconds target, int repetitions, std::chrono::milliseconds cap);

class Stopwatch {
 public:
  using Call = std::function<Status()>;

  explicit Stopwatch(Engine& engine) : engine_(&engine), world_(engine.world()) {}

  struct Timed {
    double seconds = 0;  ///< of the slowest rank, all calls
    Rank slowest = 0;
    double wire_bytes_sent = 0;  ///< by the rank that sent most, all calls
  };
  /// The time of every single call goes into `each` if it is not null, the slowest rank's each time.
  Result<Timed> time(const Call& call, int calls, std::vector<double>* each = nullptr);

  /// How often a call fills `target` and `cap`, by a few trial calls.
  Result<Filling> filling(const Call& call, std::chrono::milliseconds target, int repetitions,
                          std::chrono::milliseconds cap);

 private:
  Engine* engine_;
  Communicator world_;
};

/// How many of `calls` that took `seconds` are made again, each timed by itself: what takes about 0.2 s, but five at
/// least where those take no more than a second, and one in any case.
int calls_timed_singly(int calls, double seconds);

/// The smallest value that `share` of them do not exceed; 0 of none. Reorders them.
double percentile(std::vector<double>& values, double share);

}  // namespace fabring::tools

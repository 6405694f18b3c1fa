#include "tools/fabring/doctor/bench_verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "tools/fabring/median.hpp"

namespace fabring::tools {
namespace {

// Shared machines vary by tens of percent; what is worth a visit to the rack is slower than this share of the others
// in every round (where processors and not links are the limit, a way is fast in one and slow in the next), and further
// from the middle than the others are from each other; what is far slower needs no comparison.
constexpr double slow_share = 0.7;
constexpr double bad_share = 0.4;  ///< critical from here
constexpr double doubtful_share = 0.8;
constexpr double confirmed_growth = 1.15;  ///< a second look that brings less confirms the first
constexpr std::size_t looks_to_confirm = 2;
constexpr double deviations = 4;
constexpr double latency_factor = 3;
constexpr double latency_floor_us = 50;      ///< differences below are noise
constexpr double latency_warning_us = 1000;  ///< those below may be a busy processor's doing as well
constexpr double expected_share = 0.8;
constexpr double least_losses = 3;      ///< fewer are chance
constexpr double loss_share = 0.003;    ///< of the messages; a good network loses one of millions
constexpr double loss_majority = 0.75;  ///< of all losses, at one player: it is the cause

struct Cell {
  std::size_t from, to;
  double value;                ///< the best of all rounds
  std::vector<double> rounds;  ///< that there were; at least one
};

std::vector<double> values_of(const std::vector<Cell>& cells) {
  std::vector<double> values;
  values.reserve(cells.size());
  for (const Cell& cell : cells) values.push_back(cell.value);
  return values;
}

/// Median absolute deviation, scaled to be a standard deviation where values are normally distributed.
double spread(const std::vector<double>& values, double middle) {
  std::vector<double> distances;
  distances.reserve(values.size());
  for (const double value : values) distances.push_back(std::abs(value - middle));
  return 1.4826 * median(std::move(distances));
}

/// The rate below which a way is slow beside these others: slower in its best round than they are in their worst.
double slow_below(const std::vector<Cell>& others) {
  std::vector<double> worst;
  worst.reserve(others.size());
  for (const Cell& cell : others) worst.push_back(*std::min_element(cell.rounds.begin(), cell.rounds.end()));
  const std::vector<double> best = values_of(others);
  const double middle = median(best);
  return std::max(std::min(slow_share * median(worst), middle - deviations * spread(best, middle)), bad_share * middle);
}

/// Of the links between the others.
double usual_latency(const BenchMatrix& matrix, const std::set<std::size_t>& without = {}) {
  std::vector<double> all;
  for (std::size_t a = 0; a < matrix.names.size(); ++a)
    for (std::size_t b = a + 1; b < matrix.names.size(); ++b)
      if (matrix.latency_us[a][b] > 0 && !without.contains(a) && !without.contains(b))
        all.push_back(matrix.latency_us[a][b]);
  return all.size() < 3 ? 0 : median(std::move(all));
}

bool is_slow(double us, double usual_us) {
  return usual_us > 0 && us > latency_factor * usual_us && us - usual_us > latency_floor_us;
}

enum class Way { out, in, both };

struct SlowPlayer {
  std::size_t player;
  Way way;
  double own, others;
};

// A player is slow if the links it is part of are slower than those it is not part of. A link of two slow players would
// excuse both, so the slowest is taken out and the rest looked at again.
std::optional<SlowPlayer> slowest_player(const std::vector<Cell>& cells, std::size_t players,
                                         const std::set<std::size_t>& known) {
  std::optional<SlowPlayer> worst;
  for (std::size_t player = 0; player < players; ++player) {
    if (known.contains(player)) continue;
    std::vector<double> out, in;
    std::vector<Cell> others;
    for (const Cell& cell : cells) {
      if (known.contains(cell.from) || known.contains(cell.to)) continue;
      if (cell.from == player) {
        out.push_back(cell.value);
      } else if (cell.to == player) {
        in.push_back(cell.value);
      } else {
        others.push_back(cell);
      }
    }
    if (others.size() < 2 || out.size() < 2 || in.size() < 2) continue;
    const double rest = median(values_of(others)), limit = slow_below(others);
    const bool slow_out = median(out) < limit, slow_in = median(in) < limit;
    if (!slow_out && !slow_in) continue;
    const Way way = slow_out && slow_in ? Way::both : slow_out ? Way::out : Way::in;
    std::vector<double> own = way == Way::in ? in : out;
    if (way == Way::both) own.insert(own.end(), in.begin(), in.end());
    const double value = median(own);
    if (!worst || value / rest < worst->own / worst->others) worst = SlowPlayer{player, way, value, rest};
  }
  return worst;
}

std::string times(double share) { return fmt::format("{:.1f} times slower", 1 / share); }

constexpr auto why_slow = "a ring passes through every link: the slowest one sets the speed of the whole job";

constexpr auto inside_a_host =
    "inside a host: other programs on these processors, or processors that are far from each other; look again when it "
    "is quiet";

std::vector<double> rounds_of(const BenchMatrix& matrix, std::size_t from, std::size_t to) {
  std::vector<double> rounds;
  for (const Rates& round : matrix.rounds)
    if (round[from][to] > 0) rounds.push_back(round[from][to]);
  if (rounds.empty()) rounds.push_back(matrix.GBps[from][to]);
  return rounds;
}

class BenchJudge {
 public:
  explicit BenchJudge(const BenchMatrix& matrix) : matrix_(matrix), players_(matrix.names.size()) {
    for (std::size_t from = 0; from < players_; ++from)
      for (std::size_t to = 0; to < players_; ++to)
        if (from != to && matrix_.GBps[from][to] > 0)
          cells_.push_back({from, to, matrix_.GBps[from][to], rounds_of(matrix_, from, to)});
  }

  Findings findings() {
    far_players();
    losses();
    slow_players();
    slow_links();
    expectation();
    latencies();
    const std::size_t all = players_ * (players_ - 1);
    if (cells_.size() < all)
      found_.push_back({"bench.unmeasured", Severity::not_checked,
                        fmt::format("{} of {} directions were not measured", all - cells_.size(), all), "",
                        "give it more time with --timeout", ""});
    if (found_.empty() && !cells_.empty()) {
      const auto [low, high] = std::minmax_element(cells_.begin(), cells_.end(),
                                                   [](const Cell& a, const Cell& b) { return a.value < b.value; });
      found_.push_back({"bench.even", Severity::ok,
                        fmt::format("{} directions between {:.3g} and {:.3g} GB/s, none stands out", cells_.size(),
                                    low->value, high->value),
                        "", "", ""});
    }
    return std::move(found_);
  }

 private:
  Severity severity_of(double share) const {
    return std::min(share < bad_share ? Severity::critical : Severity::warning, matrix_.worst);
  }

  void slow_players() {
    while (const auto slow = slowest_player(cells_, players_, slow_players_)) {
      slow_players_.insert(slow->player);
      const double share = slow->own / slow->others;
      const char* way = slow->way == Way::both  ? "in both directions"
                        : slow->way == Way::out ? "when it sends"
                                                : "when it receives";
      found_.push_back({slow->way == Way::both ? "bench.slow_node" : "bench.slow_direction", severity_of(share),
                        fmt::format("its links reach {:.3g} GB/s {}, those between the others {:.3g} GB/s: {}",
                                    slow->own, way, slow->others, times(share)),
                        why_slow,
                        matrix_.one_host
                            ? inside_a_host
                            : "look at this host's interface: speed and duplex, errors, PCI width (`fabring doctor "
                              "host` there), its cable and switch port, and at what else runs there",
                        matrix_.names[slow->player]});
    }
  }

  void slow_links() {
    std::vector<Cell> rest;
    for (const Cell& cell : cells_)
      if (!slow_players_.contains(cell.from) && !slow_players_.contains(cell.to)) rest.push_back(cell);
    if (rest.size() < 2) return;
    // Of two players there is nothing to compare with but the way back.
    const bool two = rest.size() == 2;
    const Cell& faster = rest[rest[0].value < rest[1].value ? 1 : 0];
    const double reference = two ? faster.value : median(values_of(rest));
    const double limit = slow_below(two ? std::vector{faster} : rest);
    for (const Cell& cell : rest) {
      if (cell.value >= limit) continue;
      const double back = matrix_.GBps[cell.to][cell.from];
      const bool both = back > 0 && back < limit;
      if (both && cell.from > cell.to) continue;  // named already
      const double share = (both ? std::min(cell.value, back) : cell.value) / reference;
      found_.push_back(
          {both ? "bench.slow_link" : "bench.slow_direction", severity_of(share),
           both ? fmt::format("{:.3g} and {:.3g} GB/s, others reach {:.3g} GB/s: {}", cell.value, back, reference,
                              times(share))
                : fmt::format("{:.3g} GB/s this way, {:.3g} GB/s back, others reach {:.3g} GB/s: {}", cell.value, back,
                              reference, times(share)),
           why_slow,
           matrix_.one_host ? inside_a_host
           : both
               ? "both ends are fast with others: look at the way between them, cables and switches, and at its routes"
               : "one direction only: a fibre or transceiver that loses light, a congested uplink, or different "
                 "routes for the two directions",
           fmt::format("{} -> {}", matrix_.names[cell.from], matrix_.names[cell.to])});
    }
  }

  void expectation() {
    if (matrix_.expected_GBps <= 0 || cells_.empty()) return;
    std::vector<Cell> short_of;
    for (const Cell& cell : cells_)
      if (cell.value < expected_share * matrix_.expected_GBps && !slow_players_.contains(cell.from) &&
          !slow_players_.contains(cell.to))
        short_of.push_back(cell);
    if (short_of.empty()) return;
    const double middle = median(values_of(short_of));
    found_.push_back(
        {"bench.below_expected", Severity::warning,
         fmt::format("{} of {} directions reach less than {:.0f} % of the {:.3g} GB/s expected by {}: {:.3g} "
                     "GB/s in the middle",
                     short_of.size(), cells_.size(), 100 * expected_share, matrix_.expected_GBps, matrix_.expected_by,
                     middle),
         "the fabric can do more than it does, or less than was thought",
         "one flow may not fill a fast link: try FABRING_SOCKETS_PER_PEER=4; look at the processors, at the "
         "MTU, and at who shares the link",
         ""});
  }

  // A player that is far from all others makes half of all links long where there are few players.
  void far_players() {
    if (players_ < 3) return;
    for (std::size_t player = 0; player < players_; ++player) {
      std::vector<double> own, others;
      for (std::size_t a = 0; a < players_; ++a)
        for (std::size_t b = a + 1; b < players_; ++b)
          if (const double us = matrix_.latency_us[a][b]; us > 0)
            (a == player || b == player ? own : others).push_back(us);
      if (own.size() + 1 < players_ || others.empty()) continue;
      const double nearest = *std::min_element(own.begin(), own.end()), rest = median(others);
      if (!is_slow(nearest, rest) || nearest - rest < latency_warning_us) continue;
      far_.insert(player);
      found_.push_back({"bench.slow_latency", std::min(Severity::warning, matrix_.worst),
                        fmt::format("it is {:.3g} ms away from the nearest of the others (one way), they are {:.3g} ms "
                                    "from each other",
                                    nearest / 1000, rest / 1000),
                        "small messages and the start of every operation wait for the longest way; bandwidth over it "
                        "needs more data under way",
                        "is it in another rack, zone or region (placement group)? look at its route: traceroute",
                        matrix_.names[player]});
    }
  }

  // What had to be sent again while the network was idle.
  void losses() {
    if (matrix_.resent.empty()) return;
    double all = 0, messages = 0;
    std::vector<double> of(players_), sent(players_);
    for (std::size_t from = 0; from < players_; ++from)
      for (std::size_t to = 0; to < players_; ++to) {
        if (from == to) continue;
        const double lost = matrix_.resent[from][to], count = matrix_.messages[from][to];
        all += lost, messages += count;
        for (const std::size_t player : {from, to}) of[player] += lost, sent[player] += count;
      }
    if (all < least_losses || messages <= 0) return;
    const auto worst = static_cast<std::size_t>(std::max_element(of.begin(), of.end()) - of.begin());
    const bool one = players_ > 2 && of[worst] >= loss_majority * all;
    const double lost = one ? of[worst] : all, count = one ? sent[worst] : messages;
    if (lost < loss_share * count) return;
    found_.push_back(
        {"bench.loss", std::min(Severity::warning, matrix_.worst),
         fmt::format("{:.0f} of {:.0f} small messages {} were lost and sent again, though nothing else was "
                     "under way{}",
                     lost, count, one ? "to and from it" : "on many links",
                     one ? fmt::format(" (between the others {:.0f} of {:.0f})", all - lost, messages - count) : ""),
         "each loss holds an operation up for 0.2 s and more, and most congestion controls slow down by half",
         one ? "look at its cable, transceiver and switch port: ip -s link, ethtool -S there; `fabring "
               "doctor host` reads the error counters"
             : "look at what all have in common: a switch, an uplink, a firewall that drops",
         one ? matrix_.names[worst] : std::string()});
  }

  void latencies() {
    const double middle = usual_latency(matrix_, far_);
    for (std::size_t a = 0; a < players_; ++a)
      for (std::size_t b = a + 1; b < players_; ++b)
        if (const double own = matrix_.latency_us[a][b]; is_slow(own, middle) && !far_.contains(a) && !far_.contains(b))
          found_.push_back(
              {"bench.slow_latency",
               std::min(own - middle > latency_warning_us ? Severity::warning : Severity::info, matrix_.worst),
               fmt::format("{:.0f} us one way, {:.0f} us in the middle of all", own, middle),
               "small messages and the start of every operation wait for it",
               "look at the route between the two: one of them may be in another rack or zone",
               fmt::format("{} - {}", matrix_.names[a], matrix_.names[b])});
  }

  const BenchMatrix& matrix_;
  const std::size_t players_;
  std::vector<Cell> cells_;
  std::set<std::size_t> slow_players_, far_;
  Findings found_;
};

/// The last look at this pair brought nothing new.
bool is_confirmed(const BenchMatrix& matrix, std::size_t a, std::size_t b) {
  for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
    const std::vector<double> rounds = rounds_of(matrix, from, to);
    if (rounds.size() < bench_rounds + looks_to_confirm) return false;
    const double before = *std::max_element(rounds.begin(), rounds.end() - 1);
    if (rounds.back() >= confirmed_growth * before) return false;
  }
  return true;
}

}  // namespace

Findings judge(const BenchMatrix& matrix) { return BenchJudge(matrix).findings(); }

Rates latency_excess(const BenchMatrix& matrix) {
  const double usual = usual_latency(matrix);
  Rates excess(matrix.names.size(), std::vector<double>(matrix.names.size()));
  if (usual <= 0) return excess;
  for (std::size_t a = 0; a < excess.size(); ++a)
    for (std::size_t b = 0; b < excess.size(); ++b) {
      const double more = matrix.latency_us[a][b] - usual;  // both limits of is_slow(): the nearer one counts
      excess[a][b] = std::max(0.0, std::min(more / ((latency_factor - 1) * usual), more / latency_floor_us));
    }
  return excess;
}

void add_round(BenchMatrix& matrix, Rates round) {
  for (std::size_t from = 0; from < round.size(); ++from)
    for (std::size_t to = 0; to < round.size(); ++to)
      matrix.GBps[from][to] = std::max(matrix.GBps[from][to], round[from][to]);
  matrix.rounds.push_back(std::move(round));
}

double worst_round(const BenchMatrix& matrix, std::size_t from, std::size_t to) {
  const std::vector<double> rounds = rounds_of(matrix, from, to);
  return *std::min_element(rounds.begin(), rounds.end());
}

std::vector<std::pair<int, int>> doubtful(const BenchMatrix& matrix, std::size_t most) {
  std::vector<double> all;
  for (const auto& row : matrix.GBps)
    for (const double value : row)
      if (value > 0) all.push_back(value);
  if (all.empty()) return {};
  // Against the upper quarter: where many are disturbed the middle is too low.
  std::sort(all.begin(), all.end());
  const double good = all[all.size() - 1 - all.size() / 4];
  const double usual_us = usual_latency(matrix);
  std::vector<std::pair<double, std::pair<int, int>>> found;
  for (std::size_t a = 0; a < matrix.names.size(); ++a)
    for (std::size_t b = a + 1; b < matrix.names.size(); ++b) {
      const double worst = std::min(matrix.GBps[a][b], matrix.GBps[b][a]);
      const bool slow = worst > 0 && worst < doubtful_share * good;
      if (!slow && !is_slow(matrix.latency_us[a][b], usual_us)) continue;
      if (is_confirmed(matrix, a, b) && (!slow || worst < bad_share * good)) continue;
      found.push_back({worst, {static_cast<int>(a), static_cast<int>(b)}});
    }
  std::sort(found.begin(), found.end());
  if (found.size() > most) found.resize(most);
  std::vector<std::pair<int, int>> pairs;
  pairs.reserve(found.size());
  for (const auto& [value, pair] : found) pairs.push_back(pair);
  return pairs;
}

}  // namespace fabring::tools

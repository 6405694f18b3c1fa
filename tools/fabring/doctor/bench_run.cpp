#include "tools/fabring/doctor/bench_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "tools/fabring/doctor/pair_measures.hpp"
#include "tools/fabring/doctor/tournament.hpp"
#include "topology/cpus.hpp"
#include "topology/host_identity.hpp"

namespace fabring::tools {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;
constexpr std::size_t name_bytes = 64;
constexpr int most_looks = 3;

struct Player {
  Rank rank;
  std::string name;
};

Result<std::vector<Player>> players_of(Communicator& world, const std::vector<int>& nodes, bool several_hosts) {
  std::array<char, name_bytes> own{};
  std::strncpy(own.data(), host_name().c_str(), own.size() - 1);
  std::vector<char> all(name_bytes * nodes.size());
  FABRING_TRY(world.all_gather(own.data(), all.data(), name_bytes, DataType::uint8));
  std::vector<Player> players;
  int next_node = 0;
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
    if (several_hosts && nodes[rank] != next_node) continue;
    ++next_node;
    std::string host(all.data() + rank * name_bytes, ::strnlen(all.data() + rank * name_bytes, name_bytes));
    for (char& c : host)
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
    players.push_back({static_cast<Rank>(rank),
                       several_hosts ? host + fmt::format(" (rank {})", rank) : fmt::format("rank {}", rank)});
  }
  return players;
}

/// One rank's measurements, round after round.
class PairMeasuring {
 public:
  PairMeasuring(Communicator world, std::vector<Player> players, std::chrono::milliseconds measure)
      : world_(std::move(world)), players_(std::move(players)), measure_(measure), memory_(stream_bytes) {
    const std::size_t count = players_.size();
    for (std::size_t i = 0; i < count; ++i)
      if (players_[i].rank == world_.rank()) self_ = static_cast<int>(i);
    for (auto* values : {&own_GBps_, &own_us_, &own_messages_, &own_resent_}) values->assign(count, 0);
  }

  /// Disjoint pairs: the bandwidth of both directions, and latency if there is none yet or it is wanted again.
  Status measure(const Pairing& pairs, bool latency_again) {
    for (const auto& [low, high] : pairs)
      if (self_ == low || self_ == high)
        FABRING_TRY(pair(static_cast<std::size_t>(self_ == low ? high : low), self_ == low, latency_again));
    return {};
  }

  /// Ends a round: what was measured in it joins the matrix. Collective, also for ranks that do not play.
  Status exchange(BenchMatrix& matrix) {
    const std::size_t count = players_.size();
    const std::vector<double> own = own_rows();
    std::vector<double> all(own.size() * static_cast<std::size_t>(world_.size()));
    FABRING_TRY(world_.all_gather(own.data(), all.data(), own.size(), DataType::float64));
    Rates round(count, std::vector<double>(count));
    for (std::size_t player = 0; player < count; ++player)
      put(matrix, round, player, all.data() + static_cast<std::size_t>(players_[player].rank) * own.size());
    add_round(matrix, std::move(round));
    own_GBps_.assign(count, 0);
    backwards_ = !backwards_;
    return {};
  }

  /// What this rank knows itself, when the others cannot be asked any more.
  void put_own(BenchMatrix& matrix) const {
    if (self_ < 0) return;
    Rates round(players_.size(), std::vector<double>(players_.size()));
    put(matrix, round, static_cast<std::size_t>(self_), own_rows().data());
    add_round(matrix, std::move(round));
  }

 private:
  std::vector<double> own_rows() const {
    std::vector<double> rows;
    for (const auto* values : {&own_GBps_, &own_us_, &own_messages_, &own_resent_})
      rows.insert(rows.end(), values->begin(), values->end());
    return rows;
  }

  void put(BenchMatrix& matrix, Rates& round, std::size_t player, const double* rows) const {
    const std::size_t count = players_.size();
    for (std::size_t to = 0; to < count; ++to) {
      round[player][to] = rows[to];
      if (rows[count + to] > 0) matrix.latency_us[player][to] = matrix.latency_us[to][player] = rows[count + to];
      matrix.messages[player][to] = rows[2 * count + to];
      matrix.resent[player][to] = rows[3 * count + to];
    }
  }

  Status pair(std::size_t other, bool first, bool latency_again) {
    const Rank peer = players_[other].rank;
    if (latency_again) {
      auto trips = round_trips(world_, peer, first, std::min(measure_, std::chrono::milliseconds(50)));
      if (!trips) return trips.error();
      if (trips->us > 0 && (own_us_[other] <= 0 || trips->us < own_us_[other])) own_us_[other] = trips->us;
      own_messages_[other] += trips->count;
      own_resent_[other] += trips->resent;
    }
    const bool first_sends = first != backwards_;
    for (const bool sends : {first_sends, !first_sends}) {
      auto rate = bandwidth(world_, peer, sends, own_us_[other] / 1e6, measure_ / bench_rounds, memory_);
      if (!rate) return rate.error();
      if (sends) own_GBps_[other] = *rate;
    }
    return {};
  }

  Communicator world_;
  const std::vector<Player> players_;
  const std::chrono::milliseconds measure_;
  std::vector<std::byte> memory_;
  int self_ = -1;
  bool backwards_ = false;        // each round begins with the other direction
  std::vector<double> own_GBps_;  // of this round, by player
  std::vector<double> own_us_, own_messages_, own_resent_;
};

// All have ended what was before, and agree whether there is time to go on.
Result<bool> go_on(Communicator& world, SteadyTime deadline) {
  std::int32_t go = std::chrono::steady_clock::now() < deadline ? 1 : 0;
  FABRING_TRY(world.allreduce(&go, &go, 1, DataType::int32, ReduceOp::min));
  return go != 0;
}

// Rank 0 says which pairs: all must agree, to the last bit.
Result<std::vector<std::pair<int, int>>> agree(Communicator& world, std::vector<std::pair<int, int>> pairs,
                                               std::size_t most) {
  std::vector<std::int32_t> flat(2 * most, -1);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    flat[2 * i] = pairs[i].first;
    flat[2 * i + 1] = pairs[i].second;
  }
  FABRING_TRY(world.broadcast(flat.data(), flat.size(), DataType::int32, 0));
  pairs.clear();
  for (std::size_t i = 0; i < most && flat[2 * i] >= 0; ++i) pairs.emplace_back(flat[2 * i], flat[2 * i + 1]);
  return pairs;
}

// What looks slow is measured again, alone, before it counts.
Status look_again(Communicator& world, PairMeasuring& measuring, BenchRun& run, SteadyTime deadline,
                  const BenchNews& news) {
  const std::size_t most = 2 * run.matrix.names.size();
  for (int look = 0; look < most_looks; ++look) {
    auto pairs = agree(world, doubtful(run.matrix, most), most);
    if (!pairs) return pairs.error();
    for (const auto& pair : *pairs) {
      auto go = go_on(world, deadline);
      if (!go) return go.error();
      if (!*go) return {};
      news(fmt::format("looking again, alone: {} and {}", run.matrix.names[static_cast<std::size_t>(pair.first)],
                       run.matrix.names[static_cast<std::size_t>(pair.second)]));
      FABRING_TRY(measuring.measure({pair}, true));
    }
    if (pairs->empty()) return {};
    FABRING_TRY(measuring.exchange(run.matrix));
  }
  return {};
}

}  // namespace

BenchRun measure_pairs(Communicator world, SteadyTime deadline, std::chrono::milliseconds measure,
                       const BenchNews& news) {
  BenchRun run;
  const std::vector<int> nodes = world.nodes();
  run.hosts = 1 + *std::max_element(nodes.begin(), nodes.end());
  auto players = players_of(world, nodes, run.hosts > 1);
  if (!players) {
    run.status = players.error();
    return run;
  }
  const std::size_t count = players->size();
  for (const Player& player : *players) run.matrix.names.push_back(player.name);
  run.matrix.GBps.assign(count, std::vector<double>(count));
  run.matrix.latency_us = run.matrix.messages = run.matrix.resent = run.matrix.GBps;
  // Ranks of one host measure its memory and processors as well, and where they share those, chance.
  run.matrix.one_host = run.hosts == 1;
  // Two ranks of a host have nothing to be compared with but each other, and what else runs there shows in one of them.
  const bool says_little = count <= 2 || allowed_cpus() < static_cast<int>(count);
  if (run.hosts == 1) run.matrix.worst = says_little ? Severity::info : Severity::warning;
  const int at_once = run.hosts > 1 ? static_cast<int>(count) : std::max(1, allowed_cpus() / 2);
  const auto meetings = tournament(static_cast<int>(count), at_once);
  run.rounds = static_cast<int>(bench_rounds * meetings.size());
  PairMeasuring measuring(world, std::move(*players), measure);
  run.status = [&]() -> Status {
    for (std::size_t round = 0; round < bench_rounds; ++round) {
      for (const Pairing& pairs : meetings) {
        auto go = go_on(world, deadline);
        if (!go) return go.error();
        if (!*go) return measuring.exchange(run.matrix);
        news(fmt::format("round {} of {}, {} pair{} at once", run.rounds_done + 1, run.rounds, pairs.size(),
                         pairs.size() == 1 ? "" : "s"));
        FABRING_TRY(measuring.measure(pairs, round == 0));
        ++run.rounds_done;
      }
      FABRING_TRY(measuring.exchange(run.matrix));
    }
    return look_again(world, measuring, run, deadline, news);
  }();
  if (!run.status.ok()) measuring.put_own(run.matrix);
  return run;
}

}  // namespace fabring::tools

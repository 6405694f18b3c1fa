#include "tools/fabring/doctor/bench_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>

#include "tools/fabring/doctor/tournament.hpp"
#include "topology/cpus.hpp"
#include "topology/host_identity.hpp"

namespace fabring::tools {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;
constexpr std::size_t name_bytes = 64;
constexpr std::size_t block_bytes = std::size_t{1} << 20;
constexpr std::size_t window = 4;  // blocks under way
constexpr int most_round_trips = 200;
constexpr std::uint32_t most_blocks = 4096;
constexpr std::int32_t tag = 71;

double seconds_since(SteadyTime then) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
}

template <class T>
Status tell(Communicator& world, Rank to, T value) {
  return world.send(&value, sizeof(value), DataType::uint8, to, tag);
}

template <class T>
Result<T> hear(Communicator& world, Rank from) {
  T value{};
  if (Status status = world.recv(&value, sizeof(value), DataType::uint8, from, tag); !status.ok()) return status;
  return value;
}

// Half of the median round trip in microseconds. The initiator says with each message whether it goes on.
Result<double> latency(Communicator& world, Rank peer, bool initiator, std::chrono::milliseconds limit) {
  if (!initiator) {
    for (;;) {
      auto more = hear<std::uint32_t>(world, peer);
      if (!more) return more.error();
      FABRING_TRY(tell(world, peer, *more));
      if (*more == 0) return 0.0;
    }
  }
  const SteadyTime began = std::chrono::steady_clock::now();
  std::vector<double> trips;
  for (bool more = true; more;) {
    more = static_cast<int>(trips.size()) < most_round_trips && std::chrono::steady_clock::now() - began < limit;
    const SteadyTime start = std::chrono::steady_clock::now();
    FABRING_TRY(tell(world, peer, static_cast<std::uint32_t>(more)));
    if (auto echo = hear<std::uint32_t>(world, peer); !echo) return echo.error();
    trips.push_back(seconds_since(start));
  }
  std::nth_element(trips.begin(), trips.begin() + static_cast<std::ptrdiff_t>(trips.size() / 2), trips.end());
  return 1e6 * trips[trips.size() / 2] / 2;
}

Status stream(Communicator& world, Rank peer, bool sends, std::uint32_t blocks, std::vector<std::byte>& memory) {
  std::deque<Work> under_way;
  Status status;
  for (std::uint32_t block = 0; block < blocks && status.ok(); ++block) {
    if (under_way.size() == window) {
      status = under_way.front().wait();
      under_way.pop_front();
    }
    std::byte* at = memory.data() + (block % window) * block_bytes;
    under_way.push_back(world.start(sends ? Operation::send(at, block_bytes, DataType::uint8, peer, tag)
                                          : Operation::recv(at, block_bytes, DataType::uint8, peer, tag)));
  }
  for (Work& work : under_way)  // also after an error: the memory is theirs until then
    if (Status last = work.wait(); status.ok()) status = last;
  return status;
}

// GB/s as the sender sees it, until the receiver has said that it has everything; 0 for the receiver.
Result<double> bandwidth(Communicator& world, Rank peer, bool sends, double latency_s,
                         std::chrono::milliseconds measure, std::vector<std::byte>& memory) {
  if (!sends) {
    for (;;) {
      auto blocks = hear<std::uint32_t>(world, peer);
      if (!blocks) return blocks.error();
      if (*blocks == 0 || *blocks > most_blocks) return 0.0;
      FABRING_TRY(stream(world, peer, false, *blocks, memory));
      FABRING_TRY(tell(world, peer, std::uint8_t{1}));
    }
  }
  const double target = std::chrono::duration<double>(measure).count();
  double rate = 0, best = 0;
  // First one block, which also fills what lies between and lets the flow find its speed. Then three times as many as
  // fit a third of the time, of which the best counts: what else runs on the hosts only ever takes away.
  for (int repetition = 0; repetition < 4; ++repetition) {
    const double wanted = repetition == 0 ? 1 : target / 3 * rate / static_cast<double>(block_bytes);
    const auto blocks = static_cast<std::uint32_t>(std::clamp(wanted, 1.0, static_cast<double>(most_blocks)));
    FABRING_TRY(tell(world, peer, blocks));
    const SteadyTime start = std::chrono::steady_clock::now();
    FABRING_TRY(stream(world, peer, true, blocks, memory));
    if (auto all = hear<std::uint8_t>(world, peer); !all) return all.error();
    const double took = seconds_since(start);
    rate = static_cast<double>(blocks) * static_cast<double>(block_bytes) / std::max(took - latency_s, took / 2);
    if (repetition > 0) best = std::max(best, rate);
  }
  FABRING_TRY(tell(world, peer, std::uint32_t{0}));
  return best / 1e9;
}

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

}  // namespace

BenchRun measure_pairs(Communicator world, SteadyTime deadline, std::chrono::milliseconds measure) {
  BenchRun run;
  const std::vector<int> nodes = world.nodes();
  run.hosts = 1 + *std::max_element(nodes.begin(), nodes.end());
  auto players = players_of(world, nodes, run.hosts > 1);
  if (!players) {
    run.status = players.error();
    return run;
  }
  const std::size_t count = players->size();
  // Ranks of one host measure its memory and processors as well, and where they share those, chance.
  if (run.hosts == 1) run.matrix.worst = allowed_cpus() < static_cast<int>(count) ? Severity::info : Severity::warning;
  int self = -1;
  for (std::size_t i = 0; i < count; ++i) {
    run.matrix.names.push_back((*players)[i].name);
    if ((*players)[i].rank == world.rank()) self = static_cast<int>(i);
  }
  // This rank's rows: bandwidths to, then latencies.
  std::vector<double> own(2 * count), all(2 * count * nodes.size());
  std::vector<std::byte> memory(window * block_bytes);
  // Pairs of one host share its processors.
  const int at_once = run.hosts > 1 ? static_cast<int>(count) : std::max(1, allowed_cpus() / 2);
  const auto rounds = tournament(static_cast<int>(count), at_once);
  run.rounds = static_cast<int>(rounds.size());
  for (const Pairing& round : rounds) {
    // All have ended the round before, and agree to go on.
    std::int32_t go = std::chrono::steady_clock::now() < deadline ? 1 : 0;
    run.status = world.allreduce(&go, &go, 1, DataType::int32, ReduceOp::min);
    if (!run.status.ok() || go == 0) break;
    for (const auto& [low, high] : round) {
      if (self != low && self != high) continue;
      const auto other = static_cast<std::size_t>(self == low ? high : low);
      const Rank peer = (*players)[other].rank;
      auto us = latency(world, peer, self == low, std::min(measure, std::chrono::milliseconds(50)));
      if (us) {
        own[count + other] = *us;
        for (const bool sends : {self == low, self != low}) {
          auto rate = bandwidth(world, peer, sends, *us / 1e6, measure, memory);
          if (!rate) {
            run.status = rate.error();
            break;
          }
          if (sends) own[other] = *rate;
        }
      } else {
        run.status = us.error();
      }
    }
    if (!run.status.ok()) break;
    ++run.rounds_done;
  }
  if (run.status.ok()) run.status = world.all_gather(own.data(), all.data(), own.size(), DataType::float64);
  run.matrix.GBps.assign(count, std::vector<double>(count));
  run.matrix.latency_us = run.matrix.GBps;
  for (std::size_t from = 0; from < count; ++from) {
    const double* rows = run.status.ok() ? all.data() + static_cast<std::size_t>((*players)[from].rank) * 2 * count
                         : static_cast<int>(from) == self ? own.data()
                                                          : nullptr;
    for (std::size_t to = 0; rows != nullptr && to < count; ++to) {
      run.matrix.GBps[from][to] = rows[to];
      if (rows[count + to] > 0) run.matrix.latency_us[from][to] = run.matrix.latency_us[to][from] = rows[count + to];
    }
  }
  return run;
}

}  // namespace fabring::tools

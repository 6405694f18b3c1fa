#include "tools/fabring/doctor/pair_measures.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>

#include "tools/fabring/doctor/resent_segments.hpp"

namespace fabring::tools {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;
constexpr std::size_t window = 4;  // blocks under way
constexpr std::size_t block_bytes = stream_bytes / window;
constexpr int most_round_trips = 200;
constexpr double lost_trip_s = 0.15;  ///< TCP waits 0.2 s before it sends again
constexpr double most_lost_s = 1;
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

}  // namespace

// Trips that took so long that something was lost do not count
// against the limit: how many of them there are is worth knowing.
Result<RoundTrips> round_trips(Communicator& world, Rank peer, bool initiator, std::chrono::milliseconds limit) {
  RoundTrips result;
  const auto before = resent_segments();
  const SteadyTime began = std::chrono::steady_clock::now();
  double shortest_s = 0, lost_s = 0;
  for (std::uint32_t more = 1; more != 0; ++result.count) {
    if (initiator) {
      const double so_far = seconds_since(began);
      more = result.count < most_round_trips && lost_s < most_lost_s &&
             so_far - lost_s < std::chrono::duration<double>(limit).count();
      const SteadyTime start = std::chrono::steady_clock::now();
      FABRING_TRY(tell(world, peer, more));
      if (auto echo = hear<std::uint32_t>(world, peer); !echo) return echo.error();
      const double took = seconds_since(start);
      if (took > lost_trip_s) lost_s += took;
      if (shortest_s <= 0 || took < shortest_s) shortest_s = took;
    } else {
      auto heard = hear<std::uint32_t>(world, peer);
      if (!heard) return heard.error();
      more = *heard;
      FABRING_TRY(tell(world, peer, more));
    }
  }
  const auto after = resent_segments();
  if (before && after) result.resent = static_cast<double>(*after - std::min(*before, *after));
  result.us = 1e6 * shortest_s / 2;
  return result;
}

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
  double rate = 0, best = 0, spent = 0;
  // First one block, which also fills what lies between and lets the flow find its speed. Then as many as fit into the
  // time, and if that was faster than the block promised, again; the best counts: what else runs on the hosts only ever
  // takes away.
  for (int repetition = 0; repetition < 4 && (repetition < 2 || spent < 0.8 * target); ++repetition) {
    const double wanted = repetition == 0 ? 1 : (target - spent) * rate / static_cast<double>(block_bytes);
    const auto blocks = static_cast<std::uint32_t>(std::clamp(wanted, 1.0, static_cast<double>(most_blocks)));
    FABRING_TRY(tell(world, peer, blocks));
    const SteadyTime start = std::chrono::steady_clock::now();
    FABRING_TRY(stream(world, peer, true, blocks, memory));
    if (auto all = hear<std::uint8_t>(world, peer); !all) return all.error();
    const double took = seconds_since(start);
    spent += took;
    rate = static_cast<double>(blocks) * static_cast<double>(block_bytes) / std::max(took - latency_s, took / 2);
    if (repetition > 0) best = std::max(best, rate);
  }
  FABRING_TRY(tell(world, peer, std::uint32_t{0}));
  return best / 1e9;
}

}  // namespace fabring::tools

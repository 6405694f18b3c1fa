#pragma once
// Two ranks' Transfers over the simulated fabric, and who notes what comes.

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "runtime/transfer/transfer.hpp"
#include "tests/support/sim_world.hpp"

namespace fabring::fixture {

struct Recorder final : TransferListener {
  void on_record(Rank peer, const Record& record, std::span<const std::byte> payload) override {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(payload.data()) % 8, 0u);
    records.push_back({peer, record, {payload.begin(), payload.end()}});
    if (meanwhile) meanwhile(record, payload);
  }
  void on_block(std::uint64_t cookie, Outcome outcome, std::uint32_t bytes) override {
    blocks.push_back({cookie, outcome, bytes});
  }
  void on_lent(std::uint64_t, std::span<const std::byte>, std::uint32_t) override {
    ADD_FAILURE() << "nobody asked for a loan";
  }
  void on_ticket(std::uint64_t, std::span<const std::byte>, std::uint32_t) override {
    ADD_FAILURE() << "nobody takes tickets";
  }
  void on_peer_lost(Rank, const Status& why) override { lost.push_back(why); }

  struct Taken {
    Rank peer;
    Record record;
    std::vector<std::byte> payload;
  };
  std::vector<Taken> records;
  std::function<void(const Record&, std::span<const std::byte>)> meanwhile;  // during on_record()
  std::vector<Completion> blocks;
  std::vector<Status> lost;
};

class Pair {
 public:
  explicit Pair(std::uint64_t seed, const ParcelRules& parcels = {})
      : timeline(seed), fabric(timeline, 2, any_world(2, seed).weather) {
    for (Rank rank = 0; rank < 2; ++rank) {
      endpoint[rank] = fabric.open(rank);
      transfer[rank] = std::make_unique<Transfer>(*endpoint[rank], rank, 2, heard[rank], parcels);
    }
    for (bool ready = false; !ready; timeline.pass(std::chrono::microseconds(10))) {
      const bool first = transfer[0]->start();
      ready = transfer[1]->start() && first;
    }
  }
  ~Pair() {
    EXPECT_EQ(fabric.broken_rule(), "");
    fabric.end();
  }

  bool run_until(const std::function<bool()>& enough) {
    const Time end = timeline.now() + std::chrono::seconds(10);
    while (!enough()) {
      if (timeline.now() > end) return false;
      if (timeline.chance(0.5) && timeline.step()) continue;
      Transfer& one = *transfer[timeline.below(2)];
      one.poll();
      one.flush();
      timeline.pass(std::chrono::microseconds(1));
    }
    return true;
  }

  Timeline timeline;
  SimFabric fabric;
  Recorder heard[2];
  std::unique_ptr<Endpoint> endpoint[2];
  std::unique_ptr<Transfer> transfer[2];
};

inline std::vector<std::byte> payload_of(std::uint32_t number, std::size_t bytes) {
  std::vector<std::byte> payload(bytes);
  for (std::size_t i = 0; i < bytes; ++i) payload[i] = static_cast<std::byte>(number * 7 + i);
  return payload;
}

inline void send(Transfer& from, Rank to, std::uint32_t number, std::size_t bytes) {
  Record record;
  record.kind = RecordKind::data;
  record.message = number;
  record.bytes = static_cast<std::uint32_t>(bytes);
  from.send_record(to, record, payload_of(number, bytes));
}

inline void expect_each_once(const Recorder& heard, std::uint32_t count) {
  std::set<std::uint32_t> numbers;
  for (const auto& [peer, record, payload] : heard.records) {
    EXPECT_TRUE(numbers.insert(record.message).second) << "record " << record.message << " came twice";
    EXPECT_EQ(payload, payload_of(record.message, record.bytes));
  }
  EXPECT_EQ(numbers.size(), count);
}

/// `go_on` sends, and says whether all is sent: `there` messages to rank 1 and `back` to rank 0.
inline void expect_all_come_once(Pair& pair, std::uint32_t there, std::uint32_t back, std::uint64_t seed,
                                 const std::function<bool()>& go_on) {
  ASSERT_TRUE(pair.run_until([&] {
    return go_on() && pair.heard[1].records.size() >= there && pair.heard[0].records.size() >= back &&
           pair.transfer[0]->drained() && pair.transfer[1]->drained();
  })) << "seed "
      << seed << ": " << pair.heard[1].records.size() << " of " << there << ", " << pair.heard[0].records.size()
      << " of " << back;
  expect_each_once(pair.heard[1], there);
  expect_each_once(pair.heard[0], back);
  for (const Recorder& heard : pair.heard)
    EXPECT_TRUE(heard.lost.empty()) << heard.lost[0].to_string() << " seed " << seed;
  EXPECT_EQ(pair.transfer[0]->payload_bytes_sent(), pair.transfer[1]->payload_bytes_received());
  EXPECT_EQ(pair.transfer[1]->payload_bytes_sent(), pair.transfer[0]->payload_bytes_received());
}

}  // namespace fabring::fixture

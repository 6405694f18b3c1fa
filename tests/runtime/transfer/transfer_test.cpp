// Transfer between two ranks over the simulated fabric: records arrive once and whole whatever the order of parcels,
// and credits never run dry or over (the fabric checks that no parcel is sent to a slot that is not posted).

#include <gmock/gmock.h>

#include "tests/runtime/transfer/transfer_pair.hpp"

namespace fabring::fixture {
namespace {

using namespace std::chrono_literals;
constexpr std::size_t usual_scratch = std::size_t{32} << 20;

// What came since the last look is seen at once, or, by who shares its core, after others may have had it.
TEST(Records, are_looked_for_once_in_a_turn_where_that_is_asked) {
  for (const bool once : {false, true}) {
    Pair pair(3);
    Transfer& receiver = *pair.transfer[0];
    if (once) receiver.look_once_a_turn();
    Record record;
    std::span<const std::byte> payload;
    EXPECT_FALSE(receiver.front(1, record, payload));
    send(*pair.transfer[1], 0, 7, 100);
    while (!pair.transfer[1]->delivered()) {  // until it is there
      pair.transfer[1]->flush();
      pair.transfer[1]->poll();
      if (!pair.timeline.step()) pair.timeline.pass(1us);
    }
    while (pair.timeline.step()) {
    }
    EXPECT_EQ(receiver.front(1, record, payload), !once);
    receiver.next_turn();
    ASSERT_TRUE(receiver.front(1, record, payload));
    EXPECT_EQ(record.message, 7u);
    EXPECT_EQ(payload.size(), 100u);
  }
}

TEST(Records, arrive_once_and_whole_in_both_directions) {
  for (const std::uint64_t seed : seeds(20, 3)) {
    const ParcelRules parcels = seed % 2 == 0 ? ParcelRules() : parcels_over_network(2, usual_scratch);
    Pair pair(seed, parcels);
    std::mt19937_64 chance(seed);
    const std::uint32_t there = 300 + chance() % 300, back = chance() % 2 == 0 ? 0 : chance() % 600;
    const std::size_t most = chance() % 2 == 0 ? 64 : pair.transfer[0]->most_record_bytes();
    for (std::uint32_t i = 0; i < there; ++i) send(*pair.transfer[0], 1, i, chance() % (most + 1));
    for (std::uint32_t i = 0; i < back; ++i) send(*pair.transfer[1], 0, i, chance() % (most + 1));
    expect_all_come_once(pair, there, back, seed, [] { return true; });
  }
}

TEST(Records, are_found_one_by_one_and_what_is_left_goes_to_the_listener) {
  for (const std::uint64_t seed : seeds(20, 3)) {
    Pair pair(seed);
    Transfer &from = *pair.transfer[0], &to = *pair.transfer[1];
    constexpr std::uint32_t all = 40;  // in few parcels, so that one is left half read
    for (std::uint32_t i = 0; i < all; ++i) send(from, 1, i, 100 + i);
    std::vector<Recorder::Taken> found;
    const Time end = pair.timeline.now() + 10s;
    while (found.size() < all / 2 && pair.timeline.now() < end) {
      Record record;
      std::span<const std::byte> payload;
      if (to.front(0, record, payload)) {
        ASSERT_TRUE(to.front(0, record, payload)) << "it is there until it is popped";
        found.push_back({0, record, {payload.begin(), payload.end()}});
        to.pop(0, payload.size());
      }
      to.flush();
      from.poll();
      from.flush();
      if (!pair.timeline.step()) pair.timeline.pass(1us);
    }
    ASSERT_EQ(found.size(), all / 2) << "seed " << seed;
    EXPECT_TRUE(pair.heard[1].records.empty()) << "handed over although nobody polled";
    ASSERT_TRUE(pair.run_until([&] { return pair.heard[1].records.size() == all - all / 2; })) << "seed " << seed;
    Recorder heard = pair.heard[1];
    heard.records.insert(heard.records.end(), found.begin(), found.end());
    expect_each_once(heard, all);
    EXPECT_EQ(to.payload_bytes_received(), from.payload_bytes_sent());
  }
}

TEST(Parcels, of_small_worlds_are_long_and_many_and_those_of_a_rank_take_sixteen_mebibytes_at_most) {
  EXPECT_EQ(parcels_over_network(2, usual_scratch).longest - parcel_overhead, 32u << 10);
  EXPECT_EQ(parcels_over_network(2, usual_scratch).slots, most_eager_slots);
  EXPECT_EQ(parcels_over_network(4096, usual_scratch).longest, parcel_bytes);
  EXPECT_EQ(parcels_over_network(4096, usual_scratch).slots, eager_slots);
  for (int ranks = 2; ranks < 5000; ranks += 1 + ranks / 7) {
    const ParcelRules rules = parcels_over_network(ranks, usual_scratch);
    EXPECT_GE(rules.slots, eager_slots);
    EXPECT_LE(rules.slots, most_eager_slots);
    if (rules.longest > parcel_bytes) {
      EXPECT_LE((rules.longest - parcel_overhead) * rules.slots * static_cast<std::size_t>(ranks - 1), 16u << 20)
          << ranks << " ranks";
    }
  }
}

TEST(Parcels, of_a_rank_take_a_half_of_a_small_budget_at_most_or_the_fewest_there_are) {
  for (const std::size_t budget : {std::size_t{1} << 20, std::size_t{4} << 20})
    for (int ranks = 2; ranks < 64; ++ranks) {
      const ParcelRules rules = parcels_over_network(ranks, budget);
      const std::size_t bytes = (rules.longest - parcel_overhead) * rules.slots * static_cast<std::size_t>(ranks - 1);
      if (rules.longest > parcel_bytes) {
        EXPECT_LE(bytes, budget / 2) << ranks << " ranks";
      } else {
        EXPECT_EQ(rules.slots, eager_slots);
      }
    }
  EXPECT_EQ(landings_over_network(2, true, std::size_t{1} << 20).count, 0u);
  EXPECT_EQ(landings_over_network(2, true, usual_scratch).count, 2u);
}

// All of them would not stay in a cache.
TEST(Parcels, of_ranks_that_answer_each_other_use_few_slots) {
  const ParcelRules parcels = parcels_over_network(2, usual_scratch);
  Pair pair(7, parcels);
  std::vector<Slot> slots;
  pair.fabric.watch_sends(0, slots);
  const std::uint32_t exchanges = 4 * parcels.slots;
  for (std::uint32_t i = 0; i < exchanges; ++i) {
    for (const Rank from : {0, 1}) {
      send(*pair.transfer[from], 1 - from, i, 100);
      ASSERT_TRUE(pair.run_until([&] { return pair.heard[1 - from].records.size() > i; }));
    }
  }
  expect_each_once(pair.heard[0], exchanges);
  expect_each_once(pair.heard[1], exchanges);
  EXPECT_GE(slots.size(), exchanges);
  EXPECT_LE(std::set<Slot>(slots.begin(), slots.end()).size(), 4u);
}

// One of them emptied would count for the other, and credits come back that nobody has.
TEST(Parcels, with_a_number_that_is_taken_end_the_connection) {
  struct OneRecord {
    ParcelHeader header;
    Record record;
  };
  for (const std::uint16_t second : {1, 0}) {
    Pair pair(9);
    pair.fabric.excuse(0);
    OneRecord parcels[2];
    for (const std::uint16_t i : {0, 1}) {
      parcels[i].header.records = 1;
      parcels[i].header.number = i * second;
      parcels[i].record.kind = RecordKind::announce;
      while (pair.endpoint[0]->post_send(1, i, std::as_bytes(std::span(&parcels[i], 1)), 100 + i) == Post::again)
        pair.timeline.pass(1us);
    }
    Recorder& heard = pair.heard[1];
    for (const Time end = pair.timeline.now() + 10s; pair.timeline.now() < end && pair.timeline.step();)
      pair.transfer[1]->look();  // both are here before one is used
    pair.transfer[1]->poll();
    if (second == 1) {
      EXPECT_EQ(heard.records.size(), 2u);
      EXPECT_TRUE(heard.lost.empty());
      continue;
    }
    EXPECT_TRUE(heard.records.empty());
    ASSERT_EQ(heard.lost.size(), 1u);
    EXPECT_THAT(heard.lost[0].message(), testing::HasSubstr("it sent two parcels with the same number"));
  }
}

TEST(Blocks, go_straight_to_the_granted_slot) {
  Pair pair(5);
  std::vector<std::byte> from = payload_of(3, 100'000), into(from.size());
  Slot slot = 0;
  while (pair.transfer[1]->recv_block(0, into, 77, slot) == Post::again) pair.timeline.pass(1us);
  EXPECT_GE(slot, Transfer::first_granted_slot);
  while (pair.transfer[0]->send_block(1, slot, from, 66) == Post::again) pair.timeline.pass(1us);
  ASSERT_TRUE(pair.run_until([&] { return pair.heard[0].blocks.size() == 1 && pair.heard[1].blocks.size() == 1; }));
  EXPECT_EQ(into, from);
  EXPECT_EQ(pair.heard[1].blocks[0].context, 77u);
  EXPECT_EQ(pair.heard[1].blocks[0].bytes, from.size());
  EXPECT_EQ(pair.heard[0].blocks[0].context, 66u);
}

TEST(Blocks, declined_give_the_memory_back_with_nothing_in_it) {
  Pair pair(6);
  std::vector<std::byte> into(5000);
  Slot slot = 0;
  while (pair.transfer[1]->recv_block(0, into, 1, slot) == Post::again) pair.timeline.pass(1us);
  pair.transfer[0]->decline(1, slot);
  ASSERT_TRUE(pair.run_until([&] { return pair.heard[1].blocks.size() == 1; }));
  EXPECT_EQ(pair.heard[1].blocks[0].outcome, Outcome::done);
  EXPECT_EQ(pair.heard[1].blocks[0].bytes, 0u);
  EXPECT_FALSE(pair.fabric.holds(1, into));
}

TEST(Blocks, of_a_lost_peer_come_back_and_its_records_are_dropped) {
  Pair pair(7);
  std::vector<std::byte> into(5000);
  Slot slot = 0;
  while (pair.transfer[1]->recv_block(0, into, 1, slot) == Post::again) pair.timeline.pass(1us);
  pair.fabric.cut(0, 1, false);
  ASSERT_TRUE(pair.run_until([&] { return pair.heard[1].blocks.size() == 1 && pair.heard[1].lost.size() == 1; }));
  EXPECT_EQ(pair.heard[1].blocks[0].outcome, Outcome::lost);
  EXPECT_FALSE(pair.heard[1].lost[0].ok());
  send(*pair.transfer[1], 0, 1, 10);
  ASSERT_TRUE(pair.run_until([&] { return pair.transfer[1]->drained(); }));
}

}  // namespace
}  // namespace fabring::fixture

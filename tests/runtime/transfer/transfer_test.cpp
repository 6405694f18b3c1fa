// Transfer between two ranks over the simulated fabric: records arrive once and whole whatever the order of parcels,
// and credits never run dry or over (the fabric checks that no parcel is sent to a slot that is not posted).

#include <gmock/gmock.h>

#include <cstring>

#include "runtime/transfer/transfer.hpp"
#include "tests/support/sim_world.hpp"

namespace fabring::fixture {
namespace {

using namespace std::chrono_literals;

struct Recorder : TransferListener {
  void on_record(Rank peer, const Record& record, std::span<const std::byte> payload) override {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(payload.data()) % 8, 0u);
    records.push_back({peer, record, {payload.begin(), payload.end()}});
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
    for (bool ready = false; !ready; timeline.pass(10us)) {
      const bool first = transfer[0]->start();
      ready = transfer[1]->start() && first;
    }
  }
  ~Pair() {
    EXPECT_EQ(fabric.broken_rule(), "");
    fabric.end();
  }

  bool run_until(const std::function<bool()>& enough) {
    const Time end = timeline.now() + 10s;
    while (!enough()) {
      if (timeline.now() > end) return false;
      if (timeline.chance(0.5) && timeline.step()) continue;
      Transfer& one = *transfer[timeline.below(2)];
      one.poll();
      one.flush();
      timeline.pass(1us);
    }
    return true;
  }

  Timeline timeline;
  SimFabric fabric;
  Recorder heard[2];
  std::unique_ptr<Endpoint> endpoint[2];
  std::unique_ptr<Transfer> transfer[2];
};

std::vector<std::byte> payload_of(std::uint32_t number, std::size_t bytes) {
  std::vector<std::byte> payload(bytes);
  for (std::size_t i = 0; i < bytes; ++i) payload[i] = static_cast<std::byte>(number * 7 + i);
  return payload;
}

void send(Transfer& from, Rank to, std::uint32_t number, std::size_t bytes) {
  Record record;
  record.kind = RecordKind::data;
  record.message = number;
  record.bytes = static_cast<std::uint32_t>(bytes);
  from.send_record(to, record, payload_of(number, bytes));
}

void expect_each_once(const Recorder& heard, std::uint32_t count) {
  std::set<std::uint32_t> numbers;
  for (const auto& [peer, record, payload] : heard.records) {
    EXPECT_TRUE(numbers.insert(record.message).second) << "record " << record.message << " came twice";
    EXPECT_EQ(payload, payload_of(record.message, record.bytes));
  }
  EXPECT_EQ(numbers.size(), count);
}

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
    const ParcelRules parcels = seed % 2 == 0 ? ParcelRules() : parcels_over_network(2);
    Pair pair(seed, parcels);
    std::mt19937_64 chance(seed);
    const std::uint32_t there = 300 + chance() % 300, back = chance() % 2 == 0 ? 0 : chance() % 600;
    const std::size_t most = chance() % 2 == 0 ? 64 : pair.transfer[0]->most_record_bytes();
    for (std::uint32_t i = 0; i < there; ++i) send(*pair.transfer[0], 1, i, chance() % (most + 1));
    for (std::uint32_t i = 0; i < back; ++i) send(*pair.transfer[1], 0, i, chance() % (most + 1));
    ASSERT_TRUE(pair.run_until([&] {
      return pair.heard[1].records.size() >= there && pair.heard[0].records.size() >= back &&
             pair.transfer[0]->drained() && pair.transfer[1]->drained();
    })) << "seed "
        << seed << ": " << pair.heard[1].records.size() << " of " << there << ", " << pair.heard[0].records.size()
        << " of " << back;
    expect_each_once(pair.heard[1], there);
    expect_each_once(pair.heard[0], back);
    for (const Recorder& heard : pair.heard)
      EXPECT_TRUE(heard.lost.empty()) << heard.lost[0].to_string() << " seed " << seed;
    EXPECT_EQ(pair.transfer[0]->payload_bytes_sent(), pair.transfer[1]->payload_bytes_received());
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
  EXPECT_EQ(parcels_over_network(2).longest - parcel_overhead, 32u << 10);
  EXPECT_EQ(parcels_over_network(2).slots, most_eager_slots);
  EXPECT_EQ(parcels_over_network(4096).longest, parcel_bytes);
  EXPECT_EQ(parcels_over_network(4096).slots, eager_slots);
  for (int ranks = 2; ranks < 5000; ranks += 1 + ranks / 7) {
    const ParcelRules rules = parcels_over_network(ranks);
    EXPECT_GE(rules.slots, eager_slots);
    EXPECT_LE(rules.slots, most_eager_slots);
    if (rules.longest > parcel_bytes) {
      EXPECT_LE((rules.longest - parcel_overhead) * rules.slots * static_cast<std::size_t>(ranks - 1), 16u << 20)
          << ranks << " ranks";
    }
  }
}

// All of them would not stay in a cache.
TEST(Parcels, of_ranks_that_answer_each_other_use_few_slots) {
  const ParcelRules parcels = parcels_over_network(2);
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

// ---- landings ----------------------------------------------------------------------------------------------------

constexpr ParcelRules with_landings(std::uint32_t count) { return {512, eager_slots, {count, 5000}}; }

/// Sends so many messages of any length, one after the other as far as there is room; each payload's memory is
/// scribbled over as soon as it may be.
class Sender {
 public:
  Sender(Transfer& transfer, Rank to, std::uint32_t count, std::uint64_t seed)
      : transfer_(transfer), to_(to), count_(count), chance_(seed) {}
  bool go_on() {
    std::erase_if(writing_, [&](Writing& one) {
      if (!transfer_.is_written(to_, one.number)) return false;
      std::fill(one.payload.begin(), one.payload.end(), std::byte{0xee});
      scribbled_.push_back(std::move(one.payload));
      return true;
    });
    while (next_ < count_) {
      if (bytes_ == none) bytes_ = chance_() % 3 == 0 ? chance_() % 400 : chance_() % 5001;
      Record record;
      record.message = next_;
      record.bytes = static_cast<std::uint32_t>(bytes_);
      std::vector<std::byte> payload = payload_of(next_, bytes_);
      if (transfer_.lands(to_, bytes_)) {
        Writing one;
        if (!transfer_.land(to_, record, payload, one.number)) break;
        one.payload = std::move(payload);
        writing_.push_back(std::move(one));
        ++landed_;
      } else {
        transfer_.send_record(to_, record, payload);
      }
      bytes_ = none;
      ++next_;
    }
    return next_ == count_ && writing_.empty();
  }
  std::uint32_t landed() const { return landed_; }

 private:
  static constexpr std::size_t none = ~std::size_t{0};
  struct Writing {
    std::uint32_t number = 0;
    std::vector<std::byte> payload;
  };
  Transfer& transfer_;
  const Rank to_;
  const std::uint32_t count_;
  std::mt19937_64 chance_;
  std::uint32_t next_ = 0, landed_ = 0;
  std::size_t bytes_ = none;
  std::vector<Writing> writing_;
  std::vector<std::vector<std::byte>> scribbled_;
};

TEST(Landings, carry_what_is_too_long_for_a_parcel_once_and_whole_in_both_directions) {
  std::vector<std::uint64_t> all = seeds(60, 5);
  all.push_back(1567);  // both ends once used their last slot to return a landing
  for (const std::uint64_t seed : all) {
    std::mt19937_64 chance(seed);
    Pair pair(seed, with_landings(1u << chance() % 3));
    const std::uint32_t there = 100 + chance() % 300, back = chance() % 3 == 0 ? 0 : chance() % 300;
    Sender first(*pair.transfer[0], 1, there, seed), second(*pair.transfer[1], 0, back, seed + 1);
    ASSERT_TRUE(pair.run_until([&] {
      const bool sent = first.go_on();
      return second.go_on() && sent && pair.heard[1].records.size() >= there && pair.heard[0].records.size() >= back &&
             pair.transfer[0]->drained() && pair.transfer[1]->drained();
    })) << "seed "
        << seed << ": " << pair.heard[1].records.size() << " of " << there << ", " << pair.heard[0].records.size()
        << " of " << back;
    expect_each_once(pair.heard[1], there);
    expect_each_once(pair.heard[0], back);
    for (const Recorder& heard : pair.heard)
      EXPECT_TRUE(heard.lost.empty()) << heard.lost[0].to_string() << " seed " << seed;
    EXPECT_GT(first.landed(), there / 4);  // three fifths of many
    EXPECT_EQ(pair.transfer[0]->payload_bytes_sent(), pair.transfer[1]->payload_bytes_received());
    EXPECT_EQ(pair.transfer[1]->payload_bytes_sent(), pair.transfer[0]->payload_bytes_received());
  }
}

// Nothing is sent there that there is no room for, and what is kept is as it came.
TEST(Landings, that_are_kept_hold_the_sender_back_until_they_are_emptied) {
  struct Keeper : Recorder {
    void on_record(Rank peer, const Record& record, std::span<const std::byte> payload) override {
      Recorder::on_record(peer, record, payload);
      const auto landing = transfer->keep_landing(peer, payload);
      ASSERT_TRUE(landing.has_value());
      kept.push_back({*landing, payload, record.message});
    }
    struct Kept {
      std::uint32_t landing;
      std::span<const std::byte> payload;
      std::uint32_t message;
    };
    Transfer* transfer = nullptr;
    std::vector<Kept> kept;
  };
  Timeline timeline(11);
  SimFabric fabric(timeline, 2, any_world(2, 11).weather);
  Recorder sender;
  Keeper keeper;
  const auto a = fabric.open(0), b = fabric.open(1);
  Transfer from(*a, 0, 2, sender, with_landings(2)), to(*b, 1, 2, keeper, with_landings(2));
  keeper.transfer = &to;
  while (!(from.start() & to.start())) timeline.pass(10us);
  const auto pass = [&](Time span) {
    for (const Time end = timeline.now() + span; timeline.now() < end;) {
      if (!timeline.step()) timeline.pass(1us);
      for (Transfer* one : {&from, &to}) {
        one->poll();
        one->flush();
      }
    }
  };
  std::vector<std::vector<std::byte>> payloads;
  const auto send = [&](std::uint32_t number) {
    payloads.push_back(payload_of(number, 4000));
    Record record;
    record.message = number;
    record.bytes = 4000;
    std::uint32_t ignored = 0;
    return from.land(1, record, payloads.back(), ignored);
  };
  const auto sent_in_time = [&](std::uint32_t number) {
    for (int tries = 0; tries < 100; ++tries, pass(100us))
      if (send(number)) return true;
    return false;
  };
  ASSERT_TRUE(sent_in_time(0) && sent_in_time(1));
  pass(20ms);
  ASSERT_EQ(keeper.kept.size(), 2u);
  EXPECT_FALSE(send(2)) << "both are in use";
  for (const Keeper::Kept& kept : keeper.kept)
    EXPECT_TRUE(std::ranges::equal(kept.payload, payload_of(kept.message, 4000)));
  to.empty_landing(0, 1);
  pass(20ms);
  EXPECT_FALSE(send(2)) << "they are used in turn, and it is the other's";
  to.empty_landing(0, 0);
  EXPECT_TRUE(sent_in_time(2));
  pass(20ms);
  ASSERT_EQ(keeper.kept.size(), 3u);
  EXPECT_TRUE(std::ranges::equal(keeper.kept[2].payload, payload_of(2, 4000)));
  to.empty_landing(0, keeper.kept[2].landing);
  EXPECT_EQ(fabric.broken_rule(), "");
  fabric.end();
}

TEST(Landings, that_a_record_names_wrongly_end_the_connection) {
  struct OneRecord {
    ParcelHeader header;
    Record record;
  };
  struct Wrong {
    const char* what;
    Slot slot;
    std::uint32_t bytes, sent;
    std::uint32_t landings;
  };
  for (const Wrong& wrong :
       {Wrong{"none is kept", first_landing_slot, 600, 0, 0}, Wrong{"there are two", first_landing_slot + 2, 600, 0, 2},
        Wrong{"it is not so long", first_landing_slot, 5001, 0, 2}, Wrong{"more came", first_landing_slot, 600, 601, 2},
        Wrong{"less came", first_landing_slot + 1, 600, 599, 2}}) {
    Pair pair(9, with_landings(wrong.landings));
    pair.fabric.excuse(0);
    std::vector<std::byte> payload(wrong.sent);
    if (wrong.sent > 0)
      while (pair.endpoint[0]->post_send(1, wrong.slot, payload, 100) == Post::again) pair.timeline.pass(1us);
    OneRecord parcel;
    parcel.header.records = 1;
    parcel.record.bytes = wrong.bytes;
    parcel.record.slot = wrong.slot;
    while (pair.endpoint[0]->post_send(1, 0, std::as_bytes(std::span(&parcel, 1)), 101) == Post::again)
      pair.timeline.pass(1us);
    Recorder& heard = pair.heard[1];
    for (const Time end = pair.timeline.now() + 10s; pair.timeline.now() < end && pair.timeline.step();)
      pair.transfer[1]->poll();
    pair.transfer[1]->poll();
    EXPECT_TRUE(heard.records.empty()) << wrong.what;
    ASSERT_EQ(heard.lost.size(), 1u) << wrong.what;
    EXPECT_THAT(heard.lost[0].message(), testing::HasSubstr("it sent a payload to memory that was not kept for it"))
        << wrong.what;
  }
}

TEST(Landings, of_a_lost_peer_give_back_what_was_being_sent_there) {
  Pair pair(7, with_landings(2));
  const std::vector<std::byte> payload = payload_of(1, 4000);
  Record record;
  record.bytes = 4000;
  std::uint32_t number = 0;
  while (!pair.transfer[0]->land(1, record, payload, number)) pair.timeline.pass(1us);
  pair.transfer[0]->tell_when_written(1, number, 55);
  pair.fabric.cut(0, 1, false);
  ASSERT_TRUE(pair.run_until([&] { return pair.heard[0].blocks.size() == 1 && pair.heard[0].lost.size() == 1; }));
  EXPECT_EQ(pair.heard[0].blocks[0].context, 55u);
  EXPECT_TRUE(pair.transfer[0]->is_written(1, number));
  EXPECT_FALSE(pair.fabric.holds(0, payload));
}

}  // namespace
}  // namespace fabring::fixture

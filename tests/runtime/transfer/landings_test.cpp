// Landings between two ranks over the simulated fabric: what is too long for a parcel comes once and whole, nothing is
// sent where there is no room (the fabric checks it), and a record that names a landing wrongly ends the connection.

#include <gmock/gmock.h>

#include <array>
#include <deque>

#include "tests/runtime/transfer/transfer_pair.hpp"

namespace fabring::fixture {
namespace {

using namespace std::chrono_literals;

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
    expect_all_come_once(pair, there, back, seed, [&] {
      const bool sent = first.go_on();
      return second.go_on() && sent;
    });
    EXPECT_GT(first.landed(), there / 4);  // three fifths of many
  }
}

// Nothing is sent there that there is no room for, and what is kept is as it came.
TEST(Landings, that_are_kept_hold_the_sender_back_until_they_are_emptied) {
  Pair pair(11, with_landings(2));
  Transfer &from = *pair.transfer[0], &to = *pair.transfer[1];
  struct Kept {
    std::span<const std::byte> payload;
    std::uint32_t message;
  };
  std::vector<Kept> kept;
  pair.heard[1].meanwhile = [&](const Record& record, std::span<const std::byte> payload) {
    EXPECT_TRUE(to.keep_landing(0, payload).has_value());
    kept.push_back({payload, record.message});
  };
  const auto linger = [&] {
    const Time end = pair.timeline.now() + 20ms;
    (void)pair.run_until([&] { return pair.timeline.now() > end; });
  };
  std::deque<std::vector<std::byte>> payloads;
  const auto send = [&](std::uint32_t number) {
    payloads.push_back(payload_of(number, 4000));
    Record record;
    record.message = number;
    record.bytes = 4000;
    std::uint32_t ignored = 0;
    return from.land(1, record, payloads.back(), ignored);
  };
  const auto sent_in_time = [&](std::uint32_t number) { return pair.run_until([&] { return send(number); }); };
  ASSERT_TRUE(sent_in_time(0) && sent_in_time(1));
  linger();
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_FALSE(send(2)) << "both are in use";
  for (const Kept& one : kept) EXPECT_TRUE(std::ranges::equal(one.payload, payload_of(one.message, 4000)));
  to.empty_landing(0, 1);
  linger();
  EXPECT_FALSE(send(2)) << "they are used in turn, and it is the other's";
  to.empty_landing(0, 0);
  EXPECT_TRUE(sent_in_time(2));
  linger();
  ASSERT_EQ(kept.size(), 3u);
  EXPECT_TRUE(std::ranges::equal(kept[2].payload, payload_of(2, 4000)));
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

// The second record waits for what comes there next: the same memory is never emptied, and posted, twice.
TEST(Landings, that_are_kept_belong_to_one_record_however_many_name_them) {
  struct TwoRecords {
    ParcelHeader header;
    Record records[2];
  };
  Pair pair(12, with_landings(2));
  pair.fabric.excuse(0);
  std::vector<std::uint32_t> kept;
  pair.heard[1].meanwhile = [&](const Record&, std::span<const std::byte> payload) {
    if (const auto landing = pair.transfer[1]->keep_landing(0, payload)) kept.push_back(*landing);
  };
  std::uint64_t context = 100;
  const auto post = [&](Slot slot, std::span<const std::byte> bytes) {
    while (pair.endpoint[0]->post_send(1, slot, bytes, context) == Post::again) pair.timeline.pass(1us);
    ++context;
  };
  const auto linger = [&] {
    for (int i = 0; i < 1000; ++i) {
      pair.transfer[1]->poll();
      pair.transfer[1]->flush();
      pair.timeline.pass(10us);
    }
  };
  const std::vector<std::byte> first = payload_of(1, 600), second = payload_of(2, 600);
  TwoRecords parcel;
  parcel.header.records = 2;
  for (Record& record : parcel.records) {
    record.bytes = 600;
    record.slot = first_landing_slot;
  }
  post(first_landing_slot, first);
  post(0, std::as_bytes(std::span(&parcel, 1)));
  linger();
  ASSERT_EQ(kept, std::vector<std::uint32_t>{0}) << "the second record got what the first one keeps";
  pair.transfer[1]->empty_landing(0, 0);
  linger();
  ASSERT_EQ(kept.size(), 1u) << "nothing else has come there yet";
  post(first_landing_slot, second);
  linger();
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_TRUE(std::ranges::equal(pair.heard[1].records[1].payload, second));
  EXPECT_TRUE(pair.heard[1].lost.empty());
}

// Sends complete in any order, and an operation that has completed is another's: only of one that is on its way may
// somebody ask to be told.
TEST(Landings, whose_send_completes_before_an_earlier_one_are_not_on_their_way_any_more) {
  int overtaken = 0;
  for (const std::uint64_t seed : seeds(200, 1)) {
    Pair pair(seed, with_landings(2));
    Transfer& from = *pair.transfer[0];
    const std::array payloads{payload_of(0, 4000), payload_of(1, 4000)};
    std::array<std::uint32_t, 2> number{};
    for (std::uint32_t i = 0; i < 2; ++i) {
      Record record;
      record.message = i;
      record.bytes = 4000;
      ASSERT_TRUE(pair.run_until([&] { return from.land(1, record, payloads[i], number[i]); }));
    }
    ASSERT_TRUE(pair.run_until([&] { return !from.is_on_its_way(1, number[1]); }));
    if (!from.is_on_its_way(1, number[0])) continue;
    ++overtaken;
    EXPECT_FALSE(from.is_written(1, number[1])) << "one before it is not";
    from.tell_when_written(1, number[0], 55);
    ASSERT_TRUE(pair.run_until([&] { return from.is_written(1, number[1]); }));
    ASSERT_EQ(pair.heard[0].blocks.size(), 1u);
    EXPECT_EQ(pair.heard[0].blocks[0].context, 55u);
    Record record;
    record.message = 2;
    record.bytes = 4000;
    std::uint32_t next = 0;
    ASSERT_TRUE(pair.run_until([&] { return from.land(1, record, payloads[0], next); }));
    EXPECT_TRUE(from.is_on_its_way(1, next));
    EXPECT_FALSE(from.is_on_its_way(1, number[0])) << "another one is, to the same place";
    ASSERT_TRUE(pair.run_until([&] { return from.is_written(1, next); }));
  }
  EXPECT_GT(overtaken, 0) << "this test is about nothing";
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

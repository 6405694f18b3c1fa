// Messages that are written part by part before they are posted, as far as an endpoint can, and receives that may go
// past the caches: they arrive as all others do.

#include <algorithm>

#include "tests/transports/conformance/world.hpp"

namespace fabring::conformance {
namespace {

constexpr std::size_t around = 64;
constexpr std::byte untouched{0xc5};

/// A receive somewhere in a field whose rest nobody may touch.
struct Field {
  Field(std::size_t bytes, std::size_t shift) : begin(around + shift), all(begin + bytes + around, untouched) {}
  std::span<std::byte> place(std::size_t bytes) { return std::span(all).subspan(begin, bytes); }
  bool has(const Bytes& message) const {
    const auto end = all.begin() + static_cast<std::ptrdiff_t>(begin + message.size());
    const auto is_untouched = [](std::byte byte) { return byte == untouched; };
    return std::equal(message.begin(), message.end(), end - static_cast<std::ptrdiff_t>(message.size())) &&
           std::all_of(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(begin), is_untouched) &&
           std::all_of(end, all.end(), is_untouched);
  }
  std::size_t begin;
  Bytes all;
};

TEST_P(Conformance, WhatIsWrittenAheadInPartsArrivesWholeAndNothingElseIsTouched) {
  World world(GetParam(), 3);
  world.connect();
  unsigned seed = 0;
  for (const std::size_t bytes : {1ul, 4095ul, 65537ul, 100'000ul, 256ul << 10, (1ul << 20) + 3}) {
    for (const std::size_t part : {std::size_t{16} << 10, std::size_t{5003}, bytes}) {
      const Bytes expected = pattern(bytes, ++seed);
      Bytes message = expected;
      Field first(bytes, 0), second(bytes, seed % 61);
      const std::vector<std::uint64_t> received{world.recv(1, 0, 9, first.place(bytes)),
                                                world.recv(2, 0, 9, second.place(bytes))};
      const auto sent = world.send_ahead(0, {1, 2}, 9, message, part);
      ASSERT_TRUE(world.complete(sent)) << bytes << " by " << part;
      std::ranges::fill(message, std::byte{0xdd});  // must not reach the peers
      ASSERT_TRUE(world.complete(received)) << bytes << " by " << part;
      for (const std::uint64_t context : received) {
        EXPECT_DONE(world, context);
        EXPECT_EQ(world.ending(context)->bytes, bytes);
      }
      EXPECT_TRUE(first.has(expected)) << bytes << " by " << part;
      EXPECT_TRUE(second.has(expected)) << bytes << " by " << part;
    }
  }
}

TEST_P(Conformance, ManyThatAreWrittenAheadAreEachReceivedUnderTheirSlot) {
  World world(GetParam(), 3);
  world.connect();
  constexpr std::size_t count = 20, bytes = 70'000;
  std::vector<Bytes> messages, into(2 * count, Bytes(bytes));
  std::vector<std::uint64_t> contexts;
  for (Slot slot = 0; slot < count; ++slot) {
    messages.push_back(pattern(bytes, slot));
    for (Rank rank : {1, 2})
      contexts.push_back(world.recv(rank, 0, slot, into[slot * 2 + static_cast<std::size_t>(rank) - 1]));
  }
  for (Slot slot = count; slot-- > 0;)  // another order than the receives'
    for (const auto context : world.send_ahead(0, {1, 2}, slot, messages[slot], 16 << 10)) contexts.push_back(context);
  ASSERT_TRUE(world.complete(contexts));
  for (std::size_t i = 0; i < into.size(); ++i) EXPECT_TRUE(into[i] == messages[i / 2]) << i;
}

TEST_P(Conformance, AColdReceiveGetsWhatAnyOtherWould) {
  World world(GetParam(), 2);
  unsigned seed = 0;
  for (const std::size_t bytes : {0ul, 1ul, 63ul, 4097ul, 200'000ul, (3ul << 20) + 5}) {
    for (const std::size_t shift : {0ul, 1ul, 17ul}) {
      const Bytes message = pattern(bytes, ++seed);
      Field field(bytes, shift);
      const auto received = world.cold_recv(1, 0, 9, field.place(bytes));
      ASSERT_TRUE(world.complete({received, world.send(0, 1, 9, message)})) << bytes << " at " << shift;
      EXPECT_DONE(world, received);
      EXPECT_EQ(world.ending(received)->bytes, bytes);
      EXPECT_TRUE(field.has(message)) << bytes << " at " << shift;
    }
  }
}

}  // namespace
}  // namespace fabring::conformance

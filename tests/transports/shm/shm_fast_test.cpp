// Small messages through shared memory: the ring of lines, answers in place, loans, and who is woken by them.

#include <array>
#include <map>
#include <random>
#include <thread>

#include "tests/transports/shm/shm_world.hpp"

namespace fabring::conformance {
namespace {

// By memcmp: element by element it takes most of the time of a test that is not optimised.
bool is(std::span<const std::byte> payload, const Bytes& expected) {
  return payload.size() == expected.size() &&
         (payload.empty() || std::memcmp(payload.data(), expected.data(), payload.size()) == 0);
}

// The worst that a payload can hold is what would be a stamp, of this or a later time round the ring.
TEST(ShmFastBox, KeepsOrderAndBytesHoweverOftenItGoesRoundAndWhateverThePayload) {
  for (const std::uint32_t seed : {1u, 2u, 3u}) {
    auto memory = *shm::SharedMemory::create(shm::Pair::of_world(nullptr, 2).size());
    const shm::Pair pair = shm::Pair::of_world(memory.data(), 2);
    shm::FastOutbox out(pair, true);
    shm::FastInbox in(pair, true);
    std::mt19937 random(seed);
    const std::uint32_t most = pair.fast.most_bytes();
    std::uint32_t sent = 0, received = 0, lines = 0;
    std::map<std::uint32_t, Bytes> under_way;
    std::uint32_t refused = 0;
    while (received < 20'000) {
      if (random() % 2 == 0) {
        const std::uint32_t bytes = random() % 16 == 0 ? random() % (most + 1) : random() % 100;
        Bytes payload(bytes);
        for (std::size_t at = 0; at + 4 <= payload.size(); at += 4) {
          const std::uint32_t stamp =
              shm::FastRing::stamp_of(lines + static_cast<std::uint32_t>(at) / 64 + pair.fast.lines * (random() % 3));
          std::memcpy(payload.data() + at, &stamp, sizeof stamp);
        }
        if (out.put(head_of(sent), payload)) {
          under_way[sent++] = std::move(payload);
          lines += pair.fast.length(bytes);
        } else {
          ++refused;
          EXPECT_FALSE(out.has_room());
        }
      } else {
        FastMessage message;
        const auto found = in.front(message);
        ASSERT_NE(found, shm::FastInbox::Found::nonsense);
        ASSERT_EQ(found == shm::FastInbox::Found::message, !under_way.empty());
        ASSERT_EQ(in.empty(), under_way.empty());
        if (found == shm::FastInbox::Found::nothing) continue;
        ASSERT_EQ(number_of(message.head), received);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(message.payload.data()) % 16, 0u);
        ASSERT_TRUE(is(message.payload, under_way.at(received)));
        under_way.erase(received++);
        in.pop();
      }
    }
    EXPECT_GT(refused, 0u) << "the ring was never full";
  }
}

TEST(ShmFastBox, LendsWhatLiesInTheSendersArenaUntilItsLineIsPassed) {
  auto memory = *shm::SharedMemory::create(shm::Pair::of_world(nullptr, 2).size());
  const shm::Pair pair = shm::Pair::of_world(memory.data(), 2);
  alignas(64) std::array<std::byte, 3 * shm::page> arena{};
  shm::FastOutbox out(pair, true);
  shm::FastInbox in(pair, true, arena);
  std::uint32_t first = 0, second = 0;
  ASSERT_TRUE(out.lend(head_of(0), shm::page, 5000, nullptr, first));
  ASSERT_TRUE(out.put(head_of(1), pattern(100, 1)));
  ASSERT_TRUE(out.lend(head_of(2), shm::page + 8, 16, nullptr, second));
  FastMessage message;
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(out.is_back(first), i > 0);
    EXPECT_FALSE(out.is_back(second));
    ASSERT_EQ(in.front(message), shm::FastInbox::Found::message);
    EXPECT_EQ(number_of(message.head), i);
    EXPECT_EQ(message.lent, i != 1);
    if (i == 0) {
      EXPECT_EQ(message.payload.data(), arena.data() + shm::page);
      EXPECT_EQ(message.payload.size(), 5000u);
    }
    EXPECT_TRUE(in.is_intact());
    in.pop();
  }
  EXPECT_TRUE(out.is_back(second));
  out.withdraw();
  EXPECT_TRUE(in.is_intact()) << "nothing was lent any more";
  ASSERT_TRUE(out.lend(head_of(3), shm::page, 16, nullptr, first));
  ASSERT_EQ(in.front(message), shm::FastInbox::Found::message);
  out.withdraw();
  EXPECT_FALSE(in.is_intact());
}

// Two ranks, each of which answers what it got in its place: room is free again once the answers have been read.
TEST(ShmFastBox, AnswersInThePlaceOfWhatWasSent) {
  auto memory = *shm::SharedMemory::create(shm::Pair::of_world(nullptr, 2).size());
  const shm::Pair pair = shm::Pair::of_world(memory.data(), 2);
  shm::FastOutbox to_b(pair, true), to_a(pair, false);
  shm::FastInbox at_b(pair, true), at_a(pair, false);
  const std::uint32_t bytes = pair.fast.most_answered_bytes() / 2;
  const auto answer = [&](shm::FastInbox& in, shm::FastOutbox& out, std::uint32_t number) {
    FastMessage message;
    ASSERT_EQ(in.front(message), shm::FastInbox::Found::message);
    ASSERT_EQ(number_of(message.head), number);
    ASSERT_TRUE(is(message.payload, pattern(bytes, static_cast<unsigned>(number))));
    std::byte* const place = in.place_of_answer(out);
    ASSERT_EQ(place, message.payload.data());
    ASSERT_TRUE(out.has_room_for_line());
    std::ranges::copy(pattern(bytes, static_cast<unsigned>(number + 1)), place);
    in.pop_answered(out.put_answer(head_of(number + 1), in.answer_place(), bytes));
  };
  const auto read = [&](shm::FastInbox& in, std::uint32_t number) {
    FastMessage message;
    ASSERT_EQ(in.front(message), shm::FastInbox::Found::message);
    ASSERT_EQ(number_of(message.head), number);
    ASSERT_TRUE(is(message.payload, pattern(bytes, static_cast<unsigned>(number))));
    in.pop();
  };
  for (std::uint32_t i = 0; i < 1000; ++i) {
    ASSERT_TRUE(to_b.put(head_of(i), pattern(bytes, static_cast<unsigned>(i)))) << i;
    ASSERT_TRUE(to_a.put(head_of(i + 5000), pattern(bytes, static_cast<unsigned>(i + 5000)))) << i;
    answer(at_b, to_a, i);
    answer(at_a, to_b, i + 5000);
    read(at_a, i + 1);
    read(at_b, i + 5001);
  }
}

// So that a processor that fetches ahead of what it reads takes no line that the peer writes just then.
TEST(ShmFastBox, LeavesLinesOutBehindAMessageThatIsReadAtOnce) {
  auto memory = *shm::SharedMemory::create(shm::Pair::of_world(nullptr, 2).size());
  const shm::Pair pair = shm::Pair::of_world(memory.data(), 2);
  shm::FastOutbox out(pair, true);
  shm::FastInbox in(pair, true);
  for (const auto& [bytes, gap] : std::vector<std::pair<std::uint32_t, std::size_t>>{
           {960, 0}, {1024, 32}, {8192, 32}, {16384, 64}, {32768, 64}, {65536, 0}}) {
    FastMessage first, second;
    ASSERT_TRUE(out.put(head_of(0), pattern(bytes, 1)));
    ASSERT_TRUE(out.put(head_of(1), pattern(bytes, 1)));
    ASSERT_EQ(in.front(first), shm::FastInbox::Found::message);
    in.pop();
    ASSERT_EQ(in.front(second), shm::FastInbox::Found::message);
    in.pop();
    const auto between = second.payload.data() - first.payload.data();
    EXPECT_EQ(static_cast<std::size_t>(between), bytes + (1 + gap) * shm::line) << "the head of the second, and a gap";
  }
}

// Nobody reads the answers: their places stay taken, and yet whoever sends on finds room for many messages more.
TEST(ShmFastBox, HoldsNoMoreThanAFewAnswersThatNobodyReads) {
  for (const int ranks : {2, 3, 4, 8, 16}) {
    auto memory = *shm::SharedMemory::create(shm::Pair::of_world(nullptr, ranks).size());
    const shm::Pair pair = shm::Pair::of_world(memory.data(), ranks);
    shm::FastOutbox to_b(pair, true), to_a(pair, false);
    shm::FastInbox at_b(pair, true);
    const auto bytes = pair.fast.most_answered_bytes();
    std::uint32_t answered = 0;
    for (; answered < 100; ++answered) {
      FastMessage message;
      ASSERT_TRUE(to_b.put(head_of(answered), pattern(bytes, 1)));
      ASSERT_EQ(at_b.front(message), shm::FastInbox::Found::message);
      if (at_b.place_of_answer(to_a) == nullptr) break;
      at_b.pop_answered(to_a.put_answer(head_of(answered), at_b.answer_place(), bytes));
    }
    EXPECT_GT(answered, 1u) << ranks;
    EXPECT_LT(answered, 8u) << ranks;
    at_b.pop();
    EXPECT_TRUE(to_b.put(head_of(answered), pattern(pair.fast.most_bytes(), 1)))
        << "the longest message still finds room, among " << ranks;
    std::uint32_t more = 0;
    for (FastMessage message; at_b.front(message) == shm::FastInbox::Found::message; at_b.pop()) continue;
    while (more < 100 && to_b.put(head_of(more), pattern(bytes, 1))) ++more;
    EXPECT_GT(more, ranks == 2 ? 6u : 15u) << ranks;
  }
}

TEST(ShmFastBox, AnswersNoMessageInItsPlaceOfWhichFewFit) {
  for (const int ranks : {3, 4, 8}) {
    auto memory = *shm::SharedMemory::create(shm::Pair::of_world(nullptr, ranks).size());
    const shm::Pair pair = shm::Pair::of_world(memory.data(), ranks);
    shm::FastOutbox to_b(pair, true), to_a(pair, false);
    shm::FastInbox at_b(pair, true);
    const auto longest = pair.fast.most_answered_bytes();
    for (const std::uint32_t bytes : {longest, longest + 1}) {
      FastMessage message;
      ASSERT_TRUE(to_b.put(head_of(0), pattern(bytes, 1)));
      ASSERT_EQ(at_b.front(message), shm::FastInbox::Found::message);
      EXPECT_EQ(at_b.place_of_answer(to_a) != nullptr, bytes == longest) << ranks << " " << bytes;
      at_b.pop();
    }
  }
}

// A rank sends, its peer answers each message in its place, and the rank reads the answers.
class Conversation {
 public:
  explicit Conversation(const shm::SharedCopy& copies_of_b = shm::SharedCopy()) : to_a_(pair_, false, copies_of_b) {}

  /// False: no room.
  bool send(std::uint32_t bytes) {
    if (!to_b_.put(head_of(sent_), pattern(bytes, sent_))) return false;
    ++sent_;
    return true;
  }
  bool has_room() const { return to_b_.has_room(); }
  /// Takes the oldest message; true if it was answered in its place. Where it lay, counted from where the first one
  /// was.
  bool answer(std::ptrdiff_t& where) {
    FastMessage message;
    EXPECT_EQ(at_b_.front(message), shm::FastInbox::Found::message);
    const auto bytes = static_cast<std::uint32_t>(message.payload.size());
    EXPECT_TRUE(is(message.payload, pattern(bytes, answered_))) << answered_;
    if (first_ == nullptr) first_ = message.payload.data();
    where = message.payload.data() - first_;
    std::byte* const place = at_b_.place_of_answer(to_a_);
    const Bytes answer = pattern(bytes, answered_ + 1000);
    if (place == nullptr) {
      at_b_.pop();
      EXPECT_TRUE(to_a_.put(head_of(answered_), answer));
    } else {
      std::ranges::copy(answer, place);
      at_b_.pop_answered(to_a_.put_answer(head_of(answered_), at_b_.answer_place(), bytes));
    }
    ++answered_;
    return place != nullptr;
  }
  void read() {
    FastMessage message;
    EXPECT_EQ(at_a_.front(message), shm::FastInbox::Found::message);
    EXPECT_TRUE(is(message.payload, pattern(message.payload.size(), read_ + 1000))) << read_;
    if (at_a_.is_answer()) to_b_.note_answer();
    at_a_.pop();
    (void)at_b_.release(to_a_);
    ++read_;
  }

 private:
  shm::SharedMemory memory_ = *shm::SharedMemory::create(shm::Pair::of_world(nullptr, 2).size());
  const shm::Pair pair_ = shm::Pair::of_world(memory_.data(), 2);
  shm::FastOutbox to_b_{pair_, true}, to_a_;
  shm::FastInbox at_b_{pair_, true}, at_a_{pair_, false};
  unsigned sent_ = 0, answered_ = 0, read_ = 0;
  const std::byte* first_ = nullptr;
};

// Lines that go to and fro stay in the caches of both, if they are few.
TEST(ShmFastBox, KeepsAnsweredMessagesToHalfOfTheRing) {
  const shm::FastRing ring = shm::FastRing::of_world(2);
  for (const std::uint32_t bytes : {20'000u, ring.most_answered_bytes()}) {
    Conversation conversation;
    std::ptrdiff_t farthest = 0, where = 0;
    for (int i = 0; i < 300; ++i) {
      ASSERT_TRUE(conversation.send(bytes)) << i;
      ASSERT_TRUE(conversation.answer(where)) << i;
      conversation.read();
      farthest = std::max(farthest, where);
    }
    EXPECT_GT(farthest, static_cast<std::ptrdiff_t>(ring.bytes() / 4)) << bytes;
    EXPECT_LE(farthest + bytes, ring.bytes() / 2) << bytes;
  }
}

TEST(ShmFastBox, SaysThatThereIsRoomWhenThereIsForTheMessageThatFoundNone) {
  const shm::FastRing ring = shm::FastRing::of_world(2);
  for (const std::uint32_t longest : {ring.most_answered_bytes(), ring.most_bytes()}) {
    Conversation conversation;
    std::ptrdiff_t where = 0;
    for (int i = 0; i < 30; ++i) {
      // One that is answered, after which those that may be answered keep to a part of the ring; and from another place
      // each time.
      ASSERT_TRUE(conversation.send(20'000)) << i;
      ASSERT_TRUE(conversation.answer(where));
      conversation.read();
      int under_way = 0;
      for (; conversation.send(longest); ++under_way) ASSERT_LT(under_way, 20);
      EXPECT_FALSE(conversation.has_room());
      for (; !conversation.has_room(); --under_way) {
        ASSERT_GT(under_way, 0) << "all have been read, and there is no room";
        conversation.answer(where);
        conversation.read();
      }
      ASSERT_TRUE(conversation.send(longest));
      for (++under_way; under_way > 0; --under_way) {
        conversation.answer(where);
        conversation.read();
      }
    }
  }
}

// Between cores that are far from each other what is answered costs more to write than a message of its own.
TEST(ShmFastBox, AnswersLongMessagesInTheirPlaceOnlyWhileOrdinaryStoresAreQuick) {
  shm::StoreChoice far_apart;
  for (int i = 0; i < 8; ++i) {
    far_apart.took(shm::Stores::ordinary, 4096, 3000);
    far_apart.took(shm::Stores::streaming, 4096, 200);
  }
  ASSERT_EQ(far_apart.best(), shm::Stores::streaming);
  constexpr std::uint32_t always = shm::FastRing::always_answered_bytes;
  std::ptrdiff_t where = 0;
  for (const auto& [bytes, far, answered] : std::vector<std::tuple<std::uint32_t, bool, bool>>{
           {always, true, true}, {always + 4, true, false}, {always + 4, false, true}}) {
    Conversation conversation{far ? shm::SharedCopy(far_apart) : shm::SharedCopy()};
    ASSERT_TRUE(conversation.send(bytes));
    EXPECT_EQ(conversation.answer(where), answered) << bytes << (far ? " far" : " near");
    conversation.read();
  }
}

TEST(ShmFastBox, TakesNoAnswerThatCannotBe) {
  const shm::FastRing ring = shm::FastRing::of_world(2);
  for (const auto& [line, bytes] : std::vector<std::pair<std::uint32_t, std::uint32_t>>{
           {0, 0}, {0, 16}, {0, ring.most_bytes() + 1}, {ring.lines - 2, 4096}, {~std::uint32_t{0}, 1000}}) {
    auto memory = *shm::SharedMemory::create(shm::Pair::of_world(nullptr, 2).size());
    const shm::Pair pair = shm::Pair::of_world(memory.data(), 2);
    shm::FastOutbox out(pair, true);
    shm::FastInbox in(pair, true);
    (void)out.put_answer(head_of(0), {line, 0, 0}, bytes);
    FastMessage message;
    EXPECT_EQ(in.front(message), shm::FastInbox::Found::nonsense) << line << " " << bytes;
  }
}

TEST(ShmFastBox, TakesNoAnswerOutsideItsArena) {
  constexpr std::uint64_t size = 3 * shm::page;
  for (const auto& [offset, bytes] : std::vector<std::pair<std::uint64_t, std::uint32_t>>{
           {0, 16}, {shm::page + 4, 16}, {size, 16}, {shm::page, 3 * shm::page}, {~std::uint64_t{0} - 7, 16}}) {
    auto memory = *shm::SharedMemory::create(shm::Pair::of_world(nullptr, 2).size());
    const shm::Pair pair = shm::Pair::of_world(memory.data(), 2);
    const std::vector<std::byte> arena(size);
    shm::FastOutbox out(pair, true);
    shm::FastInbox in(pair, true, {}, arena);
    (void)out.put_answer(head_of(0), {offset, 1, 0}, bytes);
    FastMessage message;
    EXPECT_EQ(in.front(message), shm::FastInbox::Found::nonsense) << offset;
  }
}

TEST(ShmFastBox, AnswersInTheSendersMemoryWhereThatWasLentForIt) {
  auto memory = *shm::SharedMemory::create(shm::Pair::of_world(nullptr, 2).size());
  const shm::Pair pair = shm::Pair::of_world(memory.data(), 2);
  alignas(64) std::array<std::byte, 3 * shm::page> arena{};
  shm::FastOutbox out(pair, true), back(pair, false);
  shm::FastInbox in(pair, true, arena), home(pair, false, {}, arena);
  std::uint32_t plain = 0, loan = 0;
  ASSERT_TRUE(out.lend(head_of(0), shm::page, shm::page, nullptr, plain));
  ASSERT_TRUE(out.lend(head_of(1), shm::page, shm::page, arena.data() + shm::page, loan));
  FastMessage message;
  ASSERT_EQ(in.front(message), shm::FastInbox::Found::message);
  EXPECT_EQ(in.place_of_answer(back), nullptr) << "that one was not lent for it";
  in.pop();
  ASSERT_EQ(in.front(message), shm::FastInbox::Found::message);
  std::byte* const place = in.place_of_answer(back);
  ASSERT_EQ(place, arena.data() + shm::page);
  std::vector<std::span<std::byte>> open;
  out.for_each_place([&](std::span<std::byte> at) { open.push_back(at); });
  ASSERT_EQ(open.size(), 1u) << "the peer may write there";
  place[7] = std::byte{42};
  in.pop_answered(back.put_answer(head_of(2), in.answer_place(), shm::page));
  EXPECT_TRUE(out.is_back(loan));
  out.for_each_place([&](std::span<std::byte>) { ADD_FAILURE() << "it is not written to any more"; });
  ASSERT_EQ(home.front(message), shm::FastInbox::Found::message);
  EXPECT_EQ(message.payload.data(), place);
  EXPECT_EQ(message.payload.size(), shm::page);
}

// After 2^31 lines a loan from before them looks like one that is to come.
TEST(ShmFastBox, ForgetsLoansLongBeforeTheNumbersOfLinesWrap) {
  auto memory = *shm::SharedMemory::create(shm::Pair::of_world(nullptr, 2).size());
  const shm::Pair pair = shm::Pair::of_world(memory.data(), 2);
  alignas(64) std::array<std::byte, 3 * shm::page> arena{};
  shm::FastOutbox out(pair, true);
  shm::FastInbox in(pair, true, arena);
  std::uint32_t loan = 0;
  ASSERT_TRUE(out.lend(head_of(0), shm::page, shm::page, arena.data() + shm::page, loan));
  FastMessage message;
  for (std::uint32_t line = 0; line < 2 * pair.fast.lines; ++line) {
    ASSERT_EQ(in.front(message), shm::FastInbox::Found::message);
    in.pop();
    ASSERT_TRUE(out.put(head_of(line), {}));
  }
  pair.channel(true).fast_read.store(loan + (std::uint32_t{1} << 31) + 5);
  ASSERT_FALSE(out.is_back(loan)) << "what it looks like";
  out.for_each_place([](std::span<std::byte>) { ADD_FAILURE() << "the peer has long given that back"; });
  out.withdraw();
  EXPECT_TRUE(in.is_intact());
}

TEST(ShmFastBox, TakesNoLoanThatCannotBe) {
  const std::uint64_t size = 3 * shm::page;
  for (const auto& [offset, bytes] : std::vector<std::pair<std::uint64_t, std::uint32_t>>{
           {0, 16}, {shm::page - 8, 16}, {size - 8, 16}, {size, 8}, {~std::uint64_t{0} - 7, 16}, {shm::page + 4, 16}}) {
    auto memory = *shm::SharedMemory::create(shm::Pair::of_world(nullptr, 2).size());
    const shm::Pair pair = shm::Pair::of_world(memory.data(), 2);
    std::vector<std::byte> arena(size);
    shm::FastOutbox out(pair, true);
    shm::FastInbox in(pair, true, arena);
    std::uint32_t loan = 0;
    ASSERT_TRUE(out.lend(head_of(0), offset, bytes, nullptr, loan));
    FastMessage message;
    EXPECT_EQ(in.front(message), shm::FastInbox::Found::nonsense) << offset;
  }
}

TEST(ShmFastMessages, WakeASleeperAndOutliveTheirSender) {
  World world(shm_fabric(), 2);
  world.connect();
  ASSERT_NE(world.at(0).fast_messages()->fast_peer(1), nullptr);
  EXPECT_EQ(world.at(0).fast_messages()->fast_peer(0), nullptr);
  FastPeer& from = *world.at(0).fast_messages()->fast_peer(1);
  FastPeer& to = *world.at(1).fast_messages()->fast_peer(0);
  FastMessage first;
  ASSERT_TRUE(world.reach([&] { return from.put(head_of(0), {}); }, "rank 0 to have met rank 1"));
  ASSERT_TRUE(world.reach([&] { return to.front(first); }, "the first message"));
  to.pop();
  std::thread sleeper([&] {
    FastMessage message;
    while (!to.front(message)) world.at(1).wait(std::chrono::seconds(60));
  });
  ASSERT_TRUE(from.put(head_of(1), {}));
  world.at(0).fast_messages()->deliver();
  sleeper.join();  // else the test would take a minute
  to.pop();
  const Bytes payload = pattern(1000, 1);
  ASSERT_TRUE(from.put(head_of(2), payload));
  world.at(0).finish_sending();
  world.at(0).close();
  ASSERT_EQ(world.at(1).post_recv(0, 3, {}, 1), Post::accepted);
  const auto over = [&] {
    Completion completion;
    (void)world.at(1).poll({&completion, 1});
    return world.at(1).peer_error(0).code() == ErrorCode::peer_lost;
  };
  ASSERT_TRUE(world.reach(over, "rank 1 to hear of the end of rank 0"));
  FastMessage message;
  ASSERT_TRUE(to.front(message));
  EXPECT_EQ(number_of(message.head), 2u);
  EXPECT_TRUE(is(message.payload, payload));
}

}  // namespace
}  // namespace fabring::conformance

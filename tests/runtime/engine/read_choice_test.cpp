// Whether what is only moved is copied to its receiver or read by it: which takes less is measured, and operations do
// what was found.

#include "runtime/engine/execution/read_choice.hpp"

#include <gmock/gmock.h>

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "tests/support/thread_world.hpp"
#include "tests/support/wrapping_transport.hpp"
#include "transports/forwarding_endpoint.hpp"
#include "transports/tcp/tcp_transport.hpp"

namespace fabring::fixture {
namespace {

constexpr int in_a_row = 4;
constexpr int period = static_cast<int>(ReadChoice::rows_of_period) * in_a_row;
constexpr int trial = static_cast<int>(ReadChoice::rows_of_trial) * in_a_row;
constexpr int each_way = trial / 2;

class Timed {
 public:
  explicit Timed(const ReadChoice& choice = ReadChoice(in_a_row)) : choice_(choice) {}
  /// So many operations of `bytes`, where a byte takes so long each way; how many were read.
  int run(int operations, int read_ns, int copied_ns, std::size_t bytes = 1000) {
    int reads = 0;
    for (int i = 0; i < operations; ++i) {
      const ReadChoice::Turn turn = choice_.next();
      reads += turn.read ? 1 : 0;
      if (turn.measured)
        choice_.took(turn.read, bytes, std::chrono::nanoseconds(bytes) * (turn.read ? read_ns : copied_ns));
    }
    return reads;
  }

 private:
  ReadChoice choice_;
};

TEST(ReadChoice, IsWhatTakesLess) {
  EXPECT_EQ(Timed().run(period, 2, 3), period - 1 - each_way);
  EXPECT_EQ(Timed().run(period, 3, 2), each_way);
}

TEST(ReadChoice, ChangesWithWhatItTakes) {
  Timed choice;
  EXPECT_EQ(choice.run(period, 2, 3), period - 1 - each_way);
  EXPECT_EQ(choice.run(period, 4, 3), 1 + each_way) << "known after the next trial";
  EXPECT_EQ(choice.run(period, 2, 3), period - 1 - each_way);
}

TEST(ReadChoice, StaysAsItIsForALittle) {
  Timed read, copied;
  EXPECT_EQ(read.run(period, 2, 3), period - 1 - each_way);
  EXPECT_EQ(read.run(period, 100, 98), period - each_way);
  EXPECT_EQ(copied.run(period, 98, 100), each_way);
}

TEST(ReadChoice, MeasuresNoneThatFindsWhatTheOtherWayLeft) {
  ReadChoice choice(in_a_row);
  EXPECT_FALSE(choice.next().measured) << "nor the very first";
  for (int row = 0; row < 4; ++row) {
    for (int i = 0; i < in_a_row; ++i) {
      const ReadChoice::Turn turn = choice.next();
      EXPECT_EQ(turn.read, row % 2 == 0);
      EXPECT_EQ(turn.measured, i > 0);
    }
  }
  EXPECT_FALSE(choice.next().measured) << "nor what is no trial";
}

TEST(ReadChoice, IsOfWhatRowsTakeAndNotOfTheQuickestOfThem) {
  ReadChoice choice(in_a_row);
  for (int i = 0; i <= trial; ++i) {
    const ReadChoice::Turn turn = choice.next();
    const int time = turn.read ? 3 : i % 2 == 0 ? 1 : 9;
    if (turn.measured) choice.took(turn.read, 1, std::chrono::nanoseconds(time));
  }
  EXPECT_TRUE(choice.next().read);
}

TEST(ReadChoice, IsByTheByteAsOperationsOfAKindAreNotOfOneLength) {
  Timed choice;
  choice.run(1 + trial, 2, 3, 1000);
  EXPECT_EQ(choice.run(10, 2, 3, 1900), 10);
}

TEST(ReadChoice, LearnsNothingFromOnesThatMovedNothing) {
  Timed choice;
  choice.run(period, 2, 3);
  choice.run(1 + trial, 2, 3, 0);
  EXPECT_EQ(choice.run(10, 2, 3), 10);
}

TEST(ReadChoices, HasOneForEachKindOfOperation) {
  ReadChoices choices;
  constexpr std::size_t some = 1 << 20;
  ReadChoice* const all_gather = choices.of(Collective::all_gather, some);
  EXPECT_EQ(choices.of(Collective::all_gather, some + some / 2), all_gather);
  EXPECT_NE(choices.of(Collective::all_gather, 2 * some), all_gather);
  EXPECT_NE(choices.of(Collective::alltoall, some), all_gather);
  EXPECT_NE(choices.of(Collective::all_gather, some, true), all_gather) << "mapped memory is not read, and quicker";
  EXPECT_EQ(choices.of(Collective::all_gather, 1000), nullptr) << "no message of it is long enough";
  EXPECT_NE(choices.of(Collective::broadcast, some), nullptr);
  EXPECT_EQ(choices.of(Collective::broadcast, 4 * some), nullptr) << "it goes one way";
  EXPECT_NE(choices.of(Collective::alltoall, 0), nullptr) << "lengths differ by pair, and nobody knows them all";
}

TEST(ReadChoices, TryLongOperationsLessOften) {
  ReadChoices choices;
  const auto tried = [&](std::size_t bytes) { return Timed(*choices.of(Collective::scatter, bytes)).run(100, 3, 2); };
  EXPECT_EQ(tried(1 << 20), 8);
  EXPECT_EQ(tried(16 << 20), 4);
}

struct LongSends {
  int readable = 0;
  int others = 0;
  friend bool operator==(const LongSends&, const LongSends&) = default;
};

class Counting final : public ForwardingEndpoint {
 public:
  Counting(std::unique_ptr<Endpoint> inner, LongSends& sent) : ForwardingEndpoint(std::move(inner)), sent_(&sent) {}
  Post post_send(Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t context) override {
    return counted(sent_->others, from, inner().post_send(peer, slot, from, context));
  }
  Post post_readable_send(Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t context) override {
    return counted(sent_->readable, from, inner().post_readable_send(peer, slot, from, context));
  }

 private:
  static Post counted(int& number, std::span<const std::byte> from, Post post) {
    if (post != Post::again && from.size() >= std::size_t{64} << 10) ++number;  // no records
    return post;
  }
  LongSends* sent_;
};

class LongSendCounter final : public WrappingTransport {
 public:
  explicit LongSendCounter(std::array<LongSends, 2>& sent) : WrappingTransport(make_tcp_transport()), sent_(&sent) {}

 private:
  std::unique_ptr<Endpoint> wrap(std::unique_ptr<Endpoint> endpoint, Rank self) override {
    return std::make_unique<Counting>(std::move(endpoint), (*sent_)[static_cast<std::size_t>(self)]);
  }
  std::array<LongSends, 2>* sent_;
};

/// What each rank sends in each of so many calls.
std::array<std::vector<LongSends>, 2> sent_by_call(Collective collective, int calls) {
  std::array<LongSends, 2> sent;
  LongSendCounter transport(sent);
  EndpointOptions options;
  options.bind_address = "127.0.0.1";
  ThreadWorld world(2, {}, nullptr, transport, options);
  std::array<std::vector<LongSends>, 2> by_call;
  constexpr std::size_t count = std::size_t{1} << 20;
  world.run([&](Rank rank, Communicator all) {
    const auto index = static_cast<std::size_t>(rank);
    std::vector<float> in(2 * count), out(2 * count);
    for (int call = 0; call < calls; ++call) {
      sent[index] = {};
      ASSERT_TRUE((collective == Collective::all_gather
                       ? all.all_gather(in.data(), out.data(), count, DataType::float32)
                       : all.allreduce(in.data(), out.data(), count, DataType::float32, ReduceOp::sum))
                      .ok());
      by_call[index].push_back(sent[index]);
    }
  });
  return by_call;
}

TEST(ReadChoice, IsWhatOperationsDo) {
  static_assert(ReadChoices::in_a_row(8 << 20) == 2);
  for (const auto& of_rank : sent_by_call(Collective::all_gather, 9)) {
    const int messages = of_rank[0].others;
    EXPECT_GT(messages, 0);
    for (int call = 0; call < 8; ++call)
      EXPECT_EQ(of_rank[static_cast<std::size_t>(1 + call)],
                call / 2 % 2 == 0 ? (LongSends{messages, 0}) : (LongSends{0, messages}))
          << call;
  }
}

TEST(ReadChoice, IsNoneForWhatIsReduced) {
  for (const auto& of_rank : sent_by_call(Collective::allreduce, 3))
    for (const LongSends& sent : of_rank) EXPECT_EQ(sent.readable, 0);
}

}  // namespace
}  // namespace fabring::fixture

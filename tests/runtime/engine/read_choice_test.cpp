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

constexpr int period = static_cast<int>(ReadChoice::period);
constexpr int trials = static_cast<int>(ReadChoice::trials);

class Timed {
 public:
  /// So many operations of `bytes`, where a byte takes so long each way; how many were read.
  int run(int operations, int read_ns, int copied_ns, std::size_t bytes = 1000) {
    int reads = 0;
    for (int i = 0; i < operations; ++i) {
      const bool read = choice_.next();
      reads += read ? 1 : 0;
      choice_.took(read, bytes, std::chrono::nanoseconds(bytes) * (read ? read_ns : copied_ns));
    }
    return reads;
  }

 private:
  ReadChoice choice_;
};

TEST(ReadChoice, IsWhatTakesLess) {
  EXPECT_EQ(Timed().run(period, 2, 3), period - trials - 1) << "copied in its trial only";
  EXPECT_EQ(Timed().run(period, 3, 2), trials + 1) << "read in its trial only";
}

TEST(ReadChoice, ChangesWithWhatItTakes) {
  Timed choice;
  EXPECT_EQ(choice.run(period, 2, 3), period - trials - 1);
  EXPECT_EQ(choice.run(period, 4, 3), trials + 1) << "known after the next trial";
  EXPECT_EQ(choice.run(period, 2, 3), period - trials - 1);
}

TEST(ReadChoice, IsByTheByteAsOperationsOfAKindAreNotOfOneLength) {
  Timed choice;
  choice.run(2 * trials + 2, 2, 3, 1000);
  EXPECT_EQ(choice.run(10, 2, 3, 1900), 10);
}

TEST(ReadChoice, LearnsNothingFromOneThatMovedNothing) {
  Timed choice;
  choice.run(2 * trials + 2, 2, 3);
  choice.run(trials, 2, 3, 0);
  EXPECT_EQ(choice.run(10, 2, 3), 10);
}

TEST(ReadChoices, HasOneForEachKindOfOperation) {
  ReadChoices choices;
  constexpr std::size_t some = 1 << 20;
  ReadChoice* const all_gather = choices.of(Collective::all_gather, some);
  EXPECT_EQ(choices.of(Collective::all_gather, some + some / 2), all_gather);
  EXPECT_NE(choices.of(Collective::all_gather, 2 * some), all_gather);
  EXPECT_NE(choices.of(Collective::alltoall, some), all_gather);
  EXPECT_EQ(choices.of(Collective::all_gather, 1000), nullptr) << "no message of it is long enough";
  EXPECT_NE(choices.of(Collective::alltoall, 0), nullptr) << "lengths differ by pair, and nobody knows them all";
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

class CountingTransport final : public WrappingTransport {
 public:
  explicit CountingTransport(std::array<LongSends, 2>& sent) : WrappingTransport(make_tcp_transport()), sent_(&sent) {}

 private:
  std::unique_ptr<Endpoint> wrap(std::unique_ptr<Endpoint> endpoint, Rank self) override {
    return std::make_unique<Counting>(std::move(endpoint), (*sent_)[static_cast<std::size_t>(self)]);
  }
  std::array<LongSends, 2>* sent_;
};

/// What each rank sends in each of so many calls.
std::array<std::vector<LongSends>, 2> sent_by_call(Collective collective, int calls) {
  std::array<LongSends, 2> sent;
  CountingTransport transport(sent);
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
  const auto by_call = sent_by_call(Collective::all_gather, 2 * trials + 2);
  for (const auto& of_rank : by_call) {
    const int messages = of_rank[0].readable;
    EXPECT_GT(messages, 0);
    for (int call = 0; call < 2 * trials + 2; ++call)
      EXPECT_EQ(of_rank[static_cast<std::size_t>(call)],
                call <= trials ? (LongSends{messages, 0}) : (LongSends{0, messages}))
          << call;
  }
}

TEST(ReadChoice, IsNoneForWhatIsReduced) {
  for (const auto& of_rank : sent_by_call(Collective::allreduce, 3))
    for (const LongSends& sent : of_rank) EXPECT_EQ(sent.readable, 0);
}

}  // namespace
}  // namespace fabring::fixture

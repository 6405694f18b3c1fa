// Long messages that are sent unasked, over real sockets, to a rank that reads nothing yet: more than sockets hold, so
// that the caller's memory is still being sent when it stops running the operation itself.

#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/thread_world.hpp"
#include "tests/support/wrapping_transport.hpp"
#include "transports/forwarding_endpoint.hpp"
#include "transports/inproc/inproc_transport.hpp"
#include "transports/tcp/tcp_transport.hpp"

namespace fabring::fixture {
namespace {

constexpr LandingRules landings{2, std::size_t{7} << 20};

class LongUnasked : public testing::TestWithParam<std::tuple<bool, std::size_t>> {};

TEST_P(LongUnasked, message_is_still_the_senders_to_keep_until_it_is_written) {
  const auto [in_place, messages] = GetParam();
  Config config;
  config.algorithm = "recursive_doubling";
  const auto transport = make_tcp_transport();
  EndpointOptions options;
  options.bind_address = "127.0.0.1";
  ThreadWorld world(2, config, nullptr, *transport, options, {1024, eager_slots, landings});
  const std::size_t count = messages * landings.bytes / sizeof(float);
  world.run([&, in_place = in_place](Rank rank, Communicator all) {
    std::vector<float> in(count), other(in_place ? 0 : count);
    std::vector<float>& out = in_place ? in : other;
    for (std::size_t i = 0; i < count; ++i) in[i] = static_cast<float>(i % 1000 + static_cast<std::size_t>(rank));
    if (rank == 1) {
      std::vector<OperationState> there;
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      while ((there.empty() || there[0].phase != OperationPhase::running) && std::chrono::steady_clock::now() < end) {
        std::this_thread::yield();
        there = world.engine(0).state().operations;
      }
      ASSERT_FALSE(there.empty());
      ASSERT_EQ(there[0].peers.size(), 1u);
      EXPECT_EQ(there[0].peers[0].in_flight, 1u) << "of the message that nobody reads";
      EXPECT_EQ(there[0].peers[0].sends_in_flight, 1u);
      EXPECT_EQ(there[0].peers[0].sent, 0u);
    }
    ASSERT_TRUE(all.allreduce(in.data(), out.data(), count, DataType::float32, ReduceOp::sum).ok());
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(out[i], static_cast<float>(2 * (i % 1000) + 1)) << i;
  });
  EXPECT_EQ(world.engine(0).ran_at_once(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Landings, LongUnasked, testing::Combine(testing::Bool(), testing::Values(1, 3)),
                         [](const auto& of) {
                           return std::string(std::get<0>(of.param) ? "in_place" : "out_of_place") + "_in_" +
                                  std::to_string(std::get<1>(of.param));
                         });

constexpr int every = 1 << 30;

// What a message is sent from may be read as late as it completes: this endpoint reads messages of one length, or the
// first of them, only when it has been polled for a while since.
class LateReader final : public ForwardingEndpoint {
 public:
  /// `most`: how many of them.
  LateReader(std::unique_ptr<Endpoint> inner, std::size_t bytes, int most, std::function<void()> on_late)
      : ForwardingEndpoint(std::move(inner)), bytes_(bytes), most_(most), on_late_(std::move(on_late)) {}

  Post post_send(Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t context) override {
    if (from.size() != bytes_ || held_ == most_) return inner().post_send(peer, slot, from, context);
    if (late_) return Post::again;
    late_ = Held{peer, slot, from, context, 0};
    ++held_;
    if (on_late_) on_late_();
    return Post::accepted;
  }
  std::size_t poll(std::span<Completion> out) override {
    if (late_ && ++late_->polls >= polls_until_read &&
        inner().post_send(late_->peer, late_->slot, late_->from, late_->context) != Post::again) {
      late_.reset();
      ++read_;
    }
    return inner().poll(out);
  }
  void wait(std::chrono::microseconds limit) override {
    if (!late_) inner().wait(limit);
  }
  int read_late() const { return read_; }

 private:
  static constexpr int polls_until_read = 5000;  // longer than an operation is run by its caller while it waits
  struct Held {
    Rank peer;
    Slot slot;
    std::span<const std::byte> from;
    std::uint64_t context;
    int polls;
  };
  const std::size_t bytes_;
  const int most_;
  const std::function<void()> on_late_;
  int held_ = 0;
  std::optional<Held> late_;
  std::atomic<int> read_{0};
};

class LateTransport final : public WrappingTransport {
 public:
  /// `most`: how many are read late, by rank.
  LateTransport(std::vector<int> most, std::size_t bytes)
      : WrappingTransport(make_inproc_transport(make_inproc_fabric(static_cast<int>(most.size())))),
        endpoints(most.size()),
        most_(std::move(most)),
        bytes_(bytes) {}

  std::function<void(Rank)> on_late;
  std::vector<LateReader*> endpoints;

 private:
  std::unique_ptr<Endpoint> wrap(std::unique_ptr<Endpoint> endpoint, Rank self) override {
    const auto index = static_cast<std::size_t>(self);
    auto late = std::make_unique<LateReader>(std::move(endpoint), bytes_, most_[index], [this, self] {
      if (on_late) on_late(self);
    });
    endpoints[index] = late.get();
    return late;
  }

  const std::vector<int> most_;
  const std::size_t bytes_;
};

constexpr ParcelRules short_parcels{1024, eager_slots, {2, std::size_t{64} << 10}};

/// From the second operation on they are run by their callers alone.
void warm_up(Communicator& all) {
  float one = 1, sum = 0;
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(all.allreduce(&one, &sum, 1, DataType::float32, ReduceOp::sum).ok());
}

class AbortedLandings : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(WarmedUp, AbortedLandings, testing::Bool(),
                         [](const auto& warm) { return warm.param ? "yes" : "no"; });

// Aborted in the middle of it, so that nothing else of the operation is begun.
TEST_P(AbortedLandings, are_over_before_an_aborted_call_returns) {
  constexpr std::size_t count = 8192;
  Config config;
  config.algorithm = "recursive_doubling";
  LateTransport transport({every, every}, count * sizeof(float));
  ThreadWorld world(2, config, nullptr, transport, {}, short_parcels);
  if (GetParam()) world.run([](Rank, Communicator all) { warm_up(all); });
  transport.on_late = [&](Rank rank) { world.world(rank).abort("in the middle of it"); };
  std::vector<float> data(count, 1.0f);
  const Status status =
      world.world(0).allreduce(data.data(), data.data(), data.size(), DataType::float32, ReduceOp::sum);
  EXPECT_EQ(status.code(), ErrorCode::aborted) << status.to_string();
  EXPECT_EQ(transport.endpoints[0]->read_late(), 1) << "the buffer is the caller's again, and is still being sent";
}

/// While it lives, what is freed is written over at once.
struct FreedIsGone {
#if defined(__GLIBC__)
  FreedIsGone() { (void)::mallopt(M_PERTURB, 0xa5); }
  ~FreedIsGone() { (void)::mallopt(M_PERTURB, 0); }
#endif
};

// What travels in another type is sent from scratch. That of the rank's own run must outlive it.
TEST(LateLandings, are_read_from_scratch_that_is_still_there) {
  constexpr std::size_t count = 8192;
  const FreedIsGone freed_is_gone;
  Config config;
  config.algorithm = "recursive_doubling";
  LateTransport transport({every, every}, count * size_of(DataType::bfloat16));
  ThreadWorld world(2, config, nullptr, transport, {}, short_parcels);
  world.run([&](Rank rank, Communicator all) {
    warm_up(all);
    std::vector<float> in(count), out(count);
    for (std::size_t i = 0; i < count; ++i) in[i] = static_cast<float>(i % 100 + static_cast<std::size_t>(rank));
    Operation sum = Operation::allreduce(in.data(), out.data(), count, DataType::float32, ReduceOp::sum);
    sum.wire_type = DataType::bfloat16;
    ASSERT_TRUE(all.run(sum).ok());
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(out[i], static_cast<float>(2 * (i % 100) + 1)) << i;
    EXPECT_EQ(transport.endpoints[static_cast<std::size_t>(rank)]->read_late(), 1);
  });
}

// The second tile's message is written while the first one's still waits to be read: the run stops there, and what goes
// on waits for the first message alone.
TEST(LateLandings, that_are_overtaken_are_waited_for_and_not_what_overtook_them) {
  constexpr ParcelRules two_tiles_at_once{1024, eager_slots, {4, std::size_t{64} << 10}};
  constexpr std::size_t message = two_tiles_at_once.landings.bytes, count = 3 * message / sizeof(float);
  Config config;
  config.algorithm = "recursive_doubling";
  config.timeout = std::chrono::seconds(20);
  LateTransport transport({1, 0}, message);
  ThreadWorld world(2, config, nullptr, transport, {}, two_tiles_at_once);
  world.run([&](Rank rank, Communicator all) {
    warm_up(all);
    for (int round = 0; round < 3; ++round) {
      std::vector<float> in(count), out(count);
      for (std::size_t i = 0; i < count; ++i) in[i] = static_cast<float>(i % 100 + static_cast<std::size_t>(rank));
      const Status done = all.allreduce(in.data(), out.data(), count, DataType::float32, ReduceOp::sum);
      ASSERT_TRUE(done.ok()) << done.to_string();
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(out[i], static_cast<float>(2 * (i % 100) + 1)) << i;
    }
    EXPECT_EQ(transport.endpoints[static_cast<std::size_t>(rank)]->read_late(), rank == 0 ? 1 : 0);
  });
}

}  // namespace
}  // namespace fabring::fixture

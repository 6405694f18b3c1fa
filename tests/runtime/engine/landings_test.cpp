// Long messages that are sent unasked, over real sockets, to a rank that reads nothing yet: more than sockets hold, so
// that the caller's memory is still being sent when it stops running the operation itself.

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/support/thread_world.hpp"
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

}  // namespace
}  // namespace fabring::fixture

// What is on its way to a rank when its engine ends, over real threads.

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/support/thread_world.hpp"
#include "tests/support/wrapping_transport.hpp"
#include "transports/forwarding_endpoint.hpp"
#include "transports/inproc/inproc_transport.hpp"
#include "transports/tcp/tcp_transport.hpp"

namespace fabring::fixture {
namespace {

using namespace std::chrono_literals;

/// What rank 1 sends; of anything longer than `longest` it is told to try again while this is shut.
struct Gate {
  static constexpr std::size_t longest = std::size_t{8} << 10;
  std::atomic<bool> open{false};
  std::atomic<int> refused{0}, passed{0};
};

/// Who looks at what comes to rank 0, at every 16th poll, as an endpoint of many sockets does; nobody: all, always.
using Looker = std::atomic<std::thread::id>;

class Gated final : public ForwardingEndpoint {
 public:
  Gated(std::unique_ptr<Endpoint> inner, Gate& gate) : ForwardingEndpoint(std::move(inner)), gate_(gate) {}
  Post post_send(Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t context) override {
    if (from.size() > Gate::longest && !gate_.open.load()) {
      gate_.refused.fetch_add(1);
      return Post::again;
    }
    const Post post = inner().post_send(peer, slot, from, context);
    gate_.passed.fetch_add(1);
    return post;
  }

 private:
  Gate& gate_;
};

class Seldom final : public ForwardingEndpoint {
 public:
  Seldom(std::unique_ptr<Endpoint> inner, const Looker& looker, std::atomic<bool>& asked)
      : ForwardingEndpoint(std::move(inner)), looker_(looker), asked_(asked) {}
  std::size_t poll(std::span<Completion> out) override {
    const std::thread::id looker = looker_.load();
    const bool looks = looker == std::thread::id() || (looker == std::this_thread::get_id() && ++polls_ % 16 == 0);
    return looks ? inner().poll(out) : 0;
  }
  void look_now() override {
    if (looker_.load() == std::this_thread::get_id()) asked_.store(true);
  }

 private:
  const Looker& looker_;
  std::atomic<bool>& asked_;
  unsigned polls_ = 0;
};

struct GatedTransport final : WrappingTransport {
  explicit GatedTransport(int ranks) : WrappingTransport(make_inproc_transport(make_inproc_fabric(ranks))) {}

  Gate gate;
  Looker looker{};
  std::atomic<bool> asked{false};  // by the looker, for what an endpoint looks for seldom

 private:
  std::unique_ptr<Endpoint> wrap(std::unique_ptr<Endpoint> endpoint, Rank self) override {
    if (self == 0) return std::make_unique<Seldom>(std::move(endpoint), looker, asked);
    if (self == 1) return std::make_unique<Gated>(std::move(endpoint), gate);
    return endpoint;
  }
};

struct LastMessages : testing::Test {
  static constexpr std::size_t count = std::size_t{1} << 20;
  LastMessages() : sent(count), got(count) { std::iota(sent.begin(), sent.end(), 1); }

  /// The message has met its receive, which has asked for the first of it.
  void begin(ThreadWorld& world, Gate& gate) {
    receive = world.world(0).start(Operation::recv(got.data(), count, DataType::int32, 1));
    send = world.world(1).start(Operation::send(sent.data(), count, DataType::int32, 0));
    while (gate.refused.load() == 0) std::this_thread::yield();
  }
  void leave(ThreadWorld& world) {
    left = std::async(std::launch::async, [engine = world.engine(0).shared_from_this()] { return engine->leave(); });
    while (!world.engine(0).state().leaving) std::this_thread::yield();
  }

  std::vector<std::int32_t> sent, got;
  GatedTransport transport{3};
  Work receive, send;
  std::future<Status> left;
};

TEST_F(LastMessages, that_have_begun_to_come_arrive_before_their_engine_ends) {
  ThreadWorld world(3, {}, nullptr, transport, {});
  begin(world, transport.gate);
  std::int32_t one = 1, other = 0;
  Work nothing_comes = world.world(0).start(Operation::recv(&other, 1, DataType::int32, any_source));
  leave(world);
  EXPECT_EQ(nothing_comes.wait().code(), ErrorCode::aborted) << "at once";
  EXPECT_TRUE(nothing_comes.status().message().starts_with("recv on 'world' (4 bytes")) << "it has no number";
  EXPECT_EQ(world.world(0).start(Operation::barrier()).wait().code(), ErrorCode::aborted) << "nothing is begun";
  EXPECT_FALSE(receive.done());
  transport.gate.open.store(true);
  EXPECT_TRUE(receive.wait().ok()) << receive.status().to_string();
  EXPECT_EQ(got, sent);
  EXPECT_TRUE(send.wait().ok()) << send.status().to_string();
  Work in = world.world(2).start(Operation::recv(&other, 1, DataType::int32, 1));
  Work out = world.world(1).start(Operation::send(&one, 1, DataType::int32, 2));
  EXPECT_TRUE(out.wait().ok()) << out.status().to_string();
  EXPECT_TRUE(in.wait().ok()) << in.status().to_string();
  EXPECT_EQ(other, one);
}

TEST_F(LastMessages, that_lie_there_unseen_arrive_before_their_engine_ends) {
  ThreadWorld world(3, {}, nullptr, transport, {});
  transport.gate.open.store(true);
  transport.looker.store(std::this_thread::get_id());  // who does not
  const int before = transport.gate.passed.load();
  send = world.world(1).start(Operation::send(sent.data(), count, DataType::int32, 0));
  while (transport.gate.passed.load() == before) std::this_thread::yield();
  left = std::async(std::launch::async, [&, engine = world.engine(0).shared_from_this()] {
    transport.looker.store(std::this_thread::get_id());
    receive = world.world(0).start(Operation::recv(got.data(), count, DataType::int32, 1));
    return engine->leave();
  });
  while (!world.engine(0).state().leaving) std::this_thread::yield();
  ASSERT_TRUE(receive.wait().ok()) << receive.status().to_string();
  EXPECT_EQ(got, sent);
  EXPECT_TRUE(send.wait().ok()) << send.status().to_string();
  EXPECT_TRUE(transport.asked.load());
}

TEST_F(LastMessages, keep_their_engine_no_longer_than_it_may_take_to_leave) {
  Config config;
  config.leave_timeout = 2s;
  ThreadWorld world(3, config, nullptr, transport, {});
  begin(world, transport.gate);
  const auto began = std::chrono::steady_clock::now();
  EXPECT_EQ(world.engine(0).leave().code(), ErrorCode::timeout) << "nobody else says goodbye";
  const auto taken = std::chrono::steady_clock::now() - began;
  EXPECT_GE(taken, 2s);
  EXPECT_LT(taken, 3500ms) << "each part of it has waited for as long";
  transport.gate.open.store(true);
}

TEST_F(LastMessages, that_do_not_arrive_in_time_end_with_their_engine) {
  Config config;
  config.leave_timeout = 200ms;
  ThreadWorld world(3, config, nullptr, transport, {});
  begin(world, transport.gate);
  leave(world);
  EXPECT_EQ(send.wait().code(), ErrorCode::aborted) << send.status().to_string();
  EXPECT_NE(send.status().message().find("rank 0 (host here) has ended its engine"), std::string::npos)
      << send.status().message();
  transport.gate.open.store(true);
  EXPECT_EQ(receive.wait().code(), ErrorCode::aborted) << receive.status().to_string();
}

/// Says when rank 0 has read that a rank is gone.
class SeesLosses final : public ForwardingEndpoint {
 public:
  SeesLosses(std::unique_ptr<Endpoint> inner, std::atomic<bool>& seen)
      : ForwardingEndpoint(std::move(inner)), seen_(seen) {}
  std::size_t poll(std::span<Completion> out) override {
    const std::size_t count = inner().poll(out);
    for (const Completion& each : out.first(count))
      if (each.outcome == Outcome::lost) seen_.store(true);
    return count;
  }

 private:
  std::atomic<bool>& seen_;
};

struct TcpThatSeesLosses final : WrappingTransport {
  TcpThatSeesLosses() : WrappingTransport(make_tcp_transport()) {}
  std::atomic<bool> seen{false};

 private:
  std::unique_ptr<Endpoint> wrap(std::unique_ptr<Endpoint> endpoint, Rank self) override {
    if (self == 0) return std::make_unique<SeesLosses>(std::move(endpoint), seen);
    return endpoint;
  }
};

// The caller runs the operation itself, and waits for rank 1 when it reads that rank 2 is gone, whose message has come.
// That was called a message for an operation that is over, which only a broken rank sends.
TEST(LastMessagesOfOneThatIsGone, are_used_by_the_small_operation_that_they_are_for) {
  TcpThatSeesLosses transport;
  EndpointOptions options;
  options.bind_address = "127.0.0.1";
  Config config;
  config.algorithm = "direct_one_shot";
  config.leave_timeout = 100ms;
  ThreadWorld world(3, config, nullptr, transport, options);
  std::vector<std::int32_t> in{1, 2, 3, 4}, out(4);
  const auto reduce = [&](Rank rank) {
    return world.world(rank).run(
        Operation::reduce(in.data(), rank == 0 ? out.data() : nullptr, in.size(), DataType::int32, ReduceOp::sum, 0));
  };
  world.run([&](Rank rank, Communicator) { EXPECT_TRUE(reduce(rank).ok()); });
  const Status sent = reduce(2);
  ASSERT_TRUE(sent.ok()) << sent.to_string();
  world.drop(2);
  std::thread late([&] {
    while (!transport.seen.load()) std::this_thread::yield();
    const Status status = reduce(1);
    EXPECT_TRUE(status.ok()) << status.to_string();
  });
  out.assign(4, 0);
  const Status status = reduce(0);
  late.join();
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(out, (std::vector<std::int32_t>{3, 6, 9, 12}));
}

}  // namespace
}  // namespace fabring::fixture

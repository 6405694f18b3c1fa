// Whoever connects to a listener of ours without belonging to the job does no harm and is counted.

#include <cstring>

#include "runtime/base/handshake.hpp"
#include "tests/transports/conformance/world.hpp"

namespace fabring::conformance {
namespace {

using namespace std::chrono_literals;

/// Connects to a rank's listener, outside of the world.
struct Visitor {
  Visitor(World& world, Rank rank, const Fabric& fabric) {
    const auto address = fabric.listener(world.at(rank).address());
    const auto guard = net::connect(loop, *address, 40s, [this](Result<std::unique_ptr<net::Stream>> result) {
      if (result) stream = std::move(*result);
    });
    world.reach([this] { return loop.poll(), stream != nullptr; }, "a connection");
  }
  void say(std::string_view words) { (void)stream->write(words.data(), words.size()); }
  bool turned_away() {
    char byte = 0;
    const net::IoResult got = stream->read(&byte, 1);
    return got.state == net::Io::closed || got.state == net::Io::failed;
  }
  net::Loop loop;
  std::unique_ptr<net::Stream> stream;
};

TEST_P(Conformance, SilentAndTalkingStrangersAreTurnedAwayAndCounted) {
  if (!GetParam().listener) GTEST_SKIP() << "no listener of ours";
  World world(GetParam(), 2);
  Visitor silent(world, 1, GetParam());
  Visitor http(world, 1, GetParam());
  http.say("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  Visitor noise(world, 1, GetParam());
  const Bytes random = pattern(4096, 99);
  noise.say(std::string_view(reinterpret_cast<const char*>(random.data()), random.size()));
  Visitor gone(world, 1, GetParam());
  gone.stream.reset();
  exchange(world);  // not disturbed, not delayed
  EXPECT_TRUE(world.reach([&] { return http.turned_away() && noise.turned_away(); }, "strangers to be turned away"));
  EXPECT_TRUE(world.reach([&] { return world.at(1).counters().strangers >= 3; }, "strangers to be counted"));
  EXPECT_EQ(world.at(1).counters().messages_received, 1u);
  exchange(world);
}

TEST_P(Conformance, ARankOfAnotherJobIsRefusedAndDoesNoHarm) {
  if (!GetParam().listener) GTEST_SKIP() << "no listener of ours";
  World world(GetParam(), 2);
  const std::uint64_t before = world.at(1).counters().strangers;
  for (const bool same_id : {true, false}) {
    Visitor visitor(world, 1, GetParam());
    HandshakeOptions options;
    options.initiator = true;
    options.job_id = same_id ? "conformance" : "another";
    options.job_nonce = same_id ? 1 : world.options(1).job_nonce;  // an earlier incarnation, or another job
    options.world_size = 2;
    options.lane = 1 << 16;
    std::optional<HandshakeResult> result;
    const auto guard =
        handshake(visitor.loop, std::move(visitor.stream), options, [&](HandshakeResult r) { result = std::move(r); });
    ASSERT_TRUE(world.reach([&] { return visitor.loop.poll(), result.has_value(); }, "an answer"));
    EXPECT_EQ(result->stream, nullptr);
    EXPECT_EQ(result->failure, HandshakeFailure::refused) << result->status.to_string();
  }
  EXPECT_TRUE(world.reach([&] { return world.at(1).counters().strangers >= before + 2; }, "strangers to be counted"));
  exchange(world);
}

}  // namespace
}  // namespace fabring::conformance

// Who sleeps in shared memory is woken by the call that wrote to it, whatever its caller does next.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "tests/support/thread_world.hpp"
#include "tests/support/wrapping_transport.hpp"
#include "transports/forwarding_endpoint.hpp"
#include "transports/shm/shm_transport.hpp"

namespace fabring::fixture {
namespace {

/// Counts how often those who may sleep were rung for.
class CountedBells final : public ForwardingEndpoint, private FastMessages {
 public:
  CountedBells(std::unique_ptr<Endpoint> endpoint, std::atomic<int>& delivered)
      : ForwardingEndpoint(std::move(endpoint)), delivered_(delivered) {}
  FastMessages* fast_messages() override { return this; }

 private:
  FastPeer* fast_peer(Rank peer) override { return inner().fast_messages()->fast_peer(peer); }
  std::size_t most_bytes() const override {
    return const_cast<Endpoint&>(inner()).fast_messages()->most_bytes();  // which changes nothing
  }
  void deliver() override {
    delivered_.fetch_add(1);
    inner().fast_messages()->deliver();
  }

  std::atomic<int>& delivered_;
};

struct CountingTransport final : WrappingTransport {
  CountingTransport() : WrappingTransport(make_shm_transport()) {}
  std::array<std::atomic<int>, 2> delivered{};

 private:
  std::unique_ptr<Endpoint> wrap(std::unique_ptr<Endpoint> endpoint, Rank self) override {
    return std::make_unique<CountedBells>(std::move(endpoint), delivered.at(static_cast<std::size_t>(self)));
  }
};

// It is over as soon as it is begun, and most of the time nobody looks at anything else then.
TEST(Bells, ring_before_a_blocking_send_returns) {
  constexpr std::int64_t sends = 50;
  CountingTransport transport;
  ThreadWorld world(2, {}, nullptr, transport, {});
  world.run([](Rank, Communicator all) { ASSERT_TRUE(all.barrier().ok()); });  // they have met
  for (std::int64_t i = 0; i < sends; ++i) {
    const int before = transport.delivered[0].load();
    ASSERT_TRUE(world.world(0).send(&i, 1, DataType::int64, 1).ok());
    EXPECT_GT(transport.delivered[0].load(), before) << "send number " << i;
  }
  for (std::int64_t i = 0; i < sends; ++i) {
    std::int64_t came = -1;
    ASSERT_TRUE(world.world(1).recv(&came, 1, DataType::int64, 0).ok());
    EXPECT_EQ(came, i);
  }
}

}  // namespace
}  // namespace fabring::fixture

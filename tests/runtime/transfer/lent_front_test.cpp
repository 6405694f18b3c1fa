// What a record that is lent must be asked of: of the rank that lent it, and of nobody else. While it is used, what is
// kept of others becomes due.

#include <gtest/gtest.h>

#include <array>
#include <optional>

#include "runtime/transfer/fast_record.hpp"
#include "tests/runtime/transfer/transfer_pair.hpp"
#include "transports/forwarding_endpoint.hpp"

namespace fabring::fixture {
namespace {

/// Has one message, which its sender has taken back or not.
struct OneLentMessage final : FastPeer {
  bool put(const FastMessage::Head&, std::span<const std::byte>) override { return true; }
  bool front(FastMessage& message) override {
    if (!there) return false;
    Record record;
    record.bytes = static_cast<std::uint32_t>(payload.size());
    message = {fast_head(record), payload, /*lent=*/true};
    return true;
  }
  bool await(std::uint32_t) override { return there; }
  bool is_intact() override { return intact; }
  void pop() override { there = false; }

  alignas(16) std::array<std::byte, 16> payload{};
  bool there = true, intact = true;
};

/// Rank 1 is on this host, rank 2 behind a network.
class Mixed final : public ForwardingEndpoint, public FastMessages {
 public:
  using ForwardingEndpoint::ForwardingEndpoint;
  FastMessages* fast_messages() override { return this; }
  FastPeer* fast_peer(Rank peer) override { return peer == 1 ? &message : nullptr; }
  std::size_t most_bytes() const override { return 8000; }
  void deliver() override {}

  OneLentMessage message;
};

struct LentFront : testing::Test {
  LentFront() : timeline(1), fabric(timeline, 3, any_world(3, 1).weather), endpoint(fabric.open(0)) {}
  ~LentFront() override { fabric.end(); }

  Timeline timeline;
  SimFabric fabric;
  Mixed endpoint;
  Recorder heard;
  Transfer transfer{endpoint, 0, 3, heard, {}};
};

TEST_F(LentFront, is_asked_of_its_own_rank_while_others_are_used_beside_it) {
  std::optional<bool> of_another, of_its_own;
  endpoint.message.intact = false;
  heard.meanwhile = [&](const Record&, std::span<const std::byte>) {
    of_another = transfer.is_intact(2);  // a step that waited for this record takes what had come from there
    of_its_own = transfer.is_intact(1);
  };
  transfer.poll();
  EXPECT_EQ(of_another, true);
  EXPECT_EQ(of_its_own, false);
  EXPECT_TRUE(transfer.is_intact(1)) << "it is over";
  EXPECT_EQ(transfer.loans(), 1u);
}

// Who only looks at it, and finds that it was taken back, leaves it there.
TEST_F(LentFront, that_is_only_looked_at_concerns_nobody_else) {
  Record record;
  std::span<const std::byte> payload;
  ASSERT_TRUE(transfer.front(1, record, payload));
  endpoint.message.intact = false;
  EXPECT_FALSE(transfer.is_intact(1));
  EXPECT_TRUE(transfer.is_intact(2));
  EXPECT_TRUE(transfer.is_intact(0));
}

}  // namespace
}  // namespace fabring::fixture

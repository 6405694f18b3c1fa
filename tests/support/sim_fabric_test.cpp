// The simulated fabric itself: that it sees what its callers may not do with bytes that an endpoint owns, as simulated
// worlds rely on it.

#include "tests/support/sim_fabric.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace fabring::fixture {
namespace {

/// Rank 0 posts parts of its bytes; nothing completes, as no time passes.
class OwnedBytes : public ::testing::Test {
 protected:
  void recv(std::size_t from, std::size_t bytes) {
    ++slot_;
    ASSERT_EQ(self_->post_recv(1, slot_, part(from, bytes), slot_), Post::accepted);
  }
  void send(std::size_t from, std::size_t bytes) {
    auto& into = there_.emplace_back(bytes);
    ++slot_;
    ASSERT_EQ(peer_->post_recv(0, slot_, into, slot_), Post::accepted);
    ASSERT_EQ(self_->post_send(1, slot_, part(from, bytes), slot_), Post::accepted);
  }
  std::span<std::byte> part(std::size_t from, std::size_t bytes) { return std::span(bytes_).subspan(from, bytes); }
  std::size_t faults() const { return fabric_.violations().size(); }

  static Weather calm() {
    Weather weather;
    weather.refusals = 0;
    weather.connecting = Time(0);
    return weather;
  }
  Timeline timeline_{1};
  SimFabric fabric_{timeline_, 2, calm()};
  std::array<std::byte, 100> bytes_{};
  std::deque<std::vector<std::byte>> there_;
  std::unique_ptr<Endpoint> self_ = fabric_.open(0), peer_ = fabric_.open(1);
  Slot slot_ = 0;
};

TEST_F(OwnedBytes, may_be_sent_twice_at_once_and_lie_side_by_side) {
  send(0, 20);
  send(10, 20);
  recv(30, 10);
  recv(50, 10);
  recv(40, 10);
  send(60, 40);
  recv(35, 0);
  EXPECT_EQ(faults(), 0u) << fabric_.broken_rule();
}

TEST_F(OwnedBytes, of_a_receive_may_be_in_no_other_post) {
  recv(40, 20);
  std::size_t expected = 0;
  for (const auto& [from, bytes] : {std::pair{30, 11}, {59, 5}, {45, 5}, {30, 40}, {40, 20}}) {
    send(from, bytes);
    EXPECT_EQ(faults(), ++expected) << from << " " << bytes;
  }
  for (const auto& [from, bytes] : {std::pair{39, 2}, {59, 1}}) {
    recv(from, bytes);
    EXPECT_EQ(faults(), ++expected) << from << " " << bytes;
  }
}

TEST_F(OwnedBytes, that_are_sent_may_be_in_no_receive) {
  send(40, 20);
  recv(30, 10);
  recv(60, 10);
  EXPECT_EQ(faults(), 0u) << fabric_.broken_rule();
  recv(58, 1);
  EXPECT_EQ(faults(), 1u);
}

TEST_F(OwnedBytes, are_the_callers_again_once_a_post_is_over) {
  recv(40, 20);
  EXPECT_TRUE(fabric_.holds(0, part(59, 10)));
  fabric_.end();
  EXPECT_FALSE(fabric_.holds(0, part(0, 100)));
  EXPECT_EQ(fabric_.open_contexts(0), 0u);
}

}  // namespace
}  // namespace fabring::fixture

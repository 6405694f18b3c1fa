#pragma once
// FabricQueue: three endpoints on a provider that is made up, whose queue, posts and memory a test makes fail.

#include <netinet/in.h>

#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "tests/transports/fabric/fabric_world.hpp"
#include "tests/transports/fabric/made_up_world.hpp"

namespace fabring {

inline bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class FabricQueue : public testing::Test {
 protected:
  void SetUp() override {
    made_up::begin();
    prepare();
    for (Rank rank = 0; rank < 3; ++rank) {
      EndpointOptions options = fabric_options(rank, 3, "made_up");
      options.config.silence_timeout = 50ms;
      options.note = [this](const std::string& text) { notes_.push_back(text); };
      world_.members.push_back({open_fabric(options), {}, 0});
      ASSERT_NE(world_[rank].endpoint, nullptr);
    }
    for (Rank rank = 0; rank < 3; ++rank)
      for (Rank peer = 0; peer < 3; ++peer)
        if (peer != rank) {
          ASSERT_TRUE(world_[rank].endpoint->add_peer(peer, world_[peer].endpoint->address()).ok());
        }
  }
  void TearDown() override {
    made_up::control().answer_of_queue = made_up::control().answer_of_queue_errors = 0;
    made_up::control().answer_to_locking = 0;
    made_up::gpu().reset();
  }

  virtual void prepare() {}

  std::uint16_t port_of(Rank rank) {
    sockaddr_in name{};  // stands in the address blob
    std::memcpy(&name, world_[rank].endpoint->address().data() + 13, sizeof name);
    return ntohs(name.sin_port);
  }

  // Rank 0 waits for both others, and its queue fails.
  void expect_failed_with(const std::string& words) {
    for (int i = 0; i < 1000; ++i) world_[0].poll();
    const Status why = world_[0].endpoint->error();
    EXPECT_EQ(why.code(), ErrorCode::transport_error);
    EXPECT_NE(why.message().find(words), std::string::npos) << why.message();
    for (const Rank peer : {1, 2}) {
      ASSERT_TRUE(world_[0].has(static_cast<std::uint64_t>(peer)));
      EXPECT_EQ(world_[0].outcome(static_cast<std::uint64_t>(peer)), Outcome::lost);
      EXPECT_NE(world_[0].endpoint->peer_error(peer).message().find(words), std::string::npos);
    }
    EXPECT_EQ(world_[0].endpoint->post_send(1, 7, one_, 10), Post::accepted);
    for (int i = 0; i < 10; ++i) world_[0].poll();
    EXPECT_EQ(world_[0].outcome(10), Outcome::lost);
    EXPECT_EQ(world_[0].twice, 0);
    world_[0].endpoint->wait(1ms);
    world_[0].endpoint->close();
  }
  void wait_for_both() {
    ASSERT_TRUE(world_.receive(0, 1, 1, one_, 1));
    ASSERT_TRUE(world_.receive(0, 2, 1, two_, 2));
  }

  World world_{0};
  std::vector<std::string> notes_;
  std::vector<std::byte> one_ = std::vector<std::byte>(10), two_ = one_;
};

}  // namespace fabring

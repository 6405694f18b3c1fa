// How long a rank waits for memory of a failed operation that a peer has, before it gives that peer up.

#include <gmock/gmock.h>

#include "tests/support/sim_world.hpp"

namespace fabring::fixture {
namespace {

using namespace std::chrono_literals;
using ::testing::IsEmpty;

// Rank 0 has granted to rank 1, which does nothing for `span`, and aborts.
class Settling {
 public:
  explicit Settling(std::uint64_t seed, Time span, bool silent = false) : world({.ranks = 2, .seed = seed}) {
    const int group = world.group({0, 1});
    own = world.call(0, {.count = 3000}, group);
    (void)world.communicator(1, group);
    world.linger(5ms);
    world.pause(1, span);
    if (silent) world.control().silent = {1};
    world.engine(0).abort(*world.communicator(0, group), "test");
    world.linger(5ms);
  }
  std::vector<Rank> lost() {
    std::vector<Rank> ranks;
    for (const Failure& failure : world.control().failures())
      if (failure.code == ErrorCode::peer_lost) ranks.push_back(failure.culprit);
    return ranks;
  }
  void expect_fine() {
    EXPECT_TRUE(world.run(1s));
    EXPECT_THAT(lost(), IsEmpty()) << world.replay();
    EXPECT_EQ(own->status().code(), ErrorCode::aborted);
    const SimOperations after = world.everyone_calls({.count = 3000});
    EXPECT_TRUE(world.run(1s));
    for (const auto& operation : after) EXPECT_TRUE(operation->status().ok()) << operation->status().to_string();
  }

  SimWorld world;
  std::shared_ptr<SimOperation> own;
};

TEST(Settling, takes_who_does_not_give_memory_back_for_lost) {
  Settling two(1, 10s);
  two.world.linger(2400ms);
  EXPECT_THAT(two.lost(), IsEmpty());
  two.world.linger(200ms);
  EXPECT_THAT(two.lost(), ::testing::ElementsAre(1));
}

TEST(Settling, waits_while_a_long_message_moves) {
  Settling two(1, 20s);
  std::uint64_t left = 1000;
  two.world.fabric().bytes_in_motion = [&](Rank) { return left; };
  for (; left > 995; --left) two.world.linger(2s);
  EXPECT_THAT(two.lost(), IsEmpty());
  two.world.linger(2800ms);  // since it came to a stop
  EXPECT_THAT(two.lost(), ::testing::ElementsAre(1));
}

TEST(Settling, takes_who_was_silent_already_for_lost_soon) {
  Settling two(1, 10s, true);
  two.world.linger(200ms);
  EXPECT_THAT(two.lost(), ::testing::ElementsAre(1));
}

TEST(Settling, gives_a_rank_that_is_heard_again_the_time_of_the_living) {
  Settling two(1, 2s, true);
  two.world.linger(50ms);
  two.world.control().silent = {};
  two.world.linger(2s);
  two.expect_fine();
}

// Both stood still (their host was suspended), and this one looks first when they go on.
TEST(Settling, does_not_count_time_in_which_this_rank_stood_still_itself) {
  for (const std::uint64_t seed : seeds(20, 2)) {
    Settling two(seed, 5s);
    two.world.pause(0, 5s);
    two.world.linger(5100ms);
    two.expect_fine();
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace fabring::fixture

// How many small messages a rank may be ahead of a member, as far as its communicator alone knows.

#include <gtest/gtest.h>

#include "runtime/engine/members/communicator_core.hpp"
#include "runtime/engine/plans/prepared_plan.hpp"

namespace fabring {
namespace {

class EarlyWindow : public testing::Test {
 protected:
  bool may_send(std::size_t bytes) const { return core_->may_send_early(execution_, 0, 1, bytes); }
  CommunicatorCore::Member& there() { return core_->member[1]; }

  const std::shared_ptr<CommunicatorCore> core_ =
      std::make_shared<CommunicatorCore>(std::weak_ptr<EngineCore>(), std::make_shared<Drive>(nullptr), 1, "world",
                                         std::vector<Rank>{0, 1}, 0, std::vector<int>{0, 0});
  const Execution execution_{core_, Call(), std::make_shared<const PreparedPlan>(Plan{}), 1, Tiling{}};
};

TEST_F(EarlyWindow, is_for_any_message_while_half_of_it_is_free) {
  there().early_sent = CommunicatorCore::window / 2 - 1;
  EXPECT_TRUE(may_send(std::size_t{1} << 20));
}

// Those that are under way have the rest, oldest first; this one is not.
TEST_F(EarlyWindow, has_room_beyond_that_for_what_fits) {
  there().early_sent = CommunicatorCore::window - 1;
  EXPECT_TRUE(may_send(1));
  EXPECT_FALSE(may_send(std::size_t{64} << 10)) << "it counts as two";
  there().early_sent = CommunicatorCore::window;
  EXPECT_FALSE(may_send(1));
}

TEST_F(EarlyWindow, opens_with_what_the_member_says_that_it_has_taken) {
  there().early_sent = CommunicatorCore::window;
  EXPECT_FALSE(there().heard);
  core_->heard_of(1, CommunicatorCore::window / 2 + 1);
  EXPECT_TRUE(there().heard);
  EXPECT_TRUE(may_send(std::size_t{1} << 20));
}

TEST_F(EarlyWindow, ignores_counts_that_are_older_or_that_cannot_be) {
  there().early_sent = 10;
  core_->heard_of(1, 7);
  core_->heard_of(1, 5);
  core_->heard_of(1, 11);
  EXPECT_EQ(there().early_acked, 7u);
}

TEST_F(EarlyWindow, counts_on_when_its_numbers_go_round) {
  there().early_acked = 0xFFFFFFF0;
  there().early_sent = 0x10;
  EXPECT_EQ(there().early_open(), 0x20u);
  core_->heard_of(1, 8);
  EXPECT_EQ(there().early_open(), 8u);
}

}  // namespace
}  // namespace fabring

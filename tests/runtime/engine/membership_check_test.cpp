// What a rank makes of the lists of members that others tell it, and how long what they may explain waits for them.

#include "runtime/engine/members/membership_check.hpp"

#include <gmock/gmock.h>

#include "runtime/engine/members/communicator_core.hpp"
#include "tests/support/sim_control.hpp"

namespace fabring::fixture {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr std::uint32_t number = CommunicatorCore::subgroup_ids | 7;

/// Rank 0 of 3, which has made a subgroup of ranks 0 and 1.
class MembershipChecks : public testing::Test {
 protected:
  MembershipChecks() { check_.made(subgroup_); }

  void hear(Rank from, std::vector<Rank> members) {
    check_.heard(from, MemberList{from, number, std::move(members)}.encode());
    timeline_.pass(50ms);
  }
  const std::vector<Failure>& reported() const { return control_.failures(); }

  Timeline timeline_{5};
  SimControl control_{timeline_, 3};
  const std::unique_ptr<ControlPlane> plane_ = control_.open(0);
  MembershipCheck check_{0, 3, plane_.get(), timeline_, [](Rank rank) { return "rank " + std::to_string(rank); }};
  const std::shared_ptr<CommunicatorCore> subgroup_ = std::make_shared<CommunicatorCore>(
      std::weak_ptr<EngineCore>(), nullptr, number, "some", std::vector<Rank>{0, 1}, 0, std::vector<int>{0, 0});
  const Failure doubt_{ErrorCode::mismatch, 1, 0, subgroup_->global_id(), "what was made of its messages"};
};

TEST_F(MembershipChecks, report_nothing_of_the_same_list) {
  hear(1, {0, 1});
  EXPECT_TRUE(reported().empty());
}

TEST_F(MembershipChecks, report_another_list_by_the_names_that_both_sides_have_for_it) {
  hear(1, {1, 0});
  ASSERT_EQ(reported().size(), 2u);
  EXPECT_EQ(reported()[0].communicator, subgroup_->global_id());
  EXPECT_NE(reported()[1].communicator, subgroup_->global_id());
  for (const Failure& failure : reported()) {
    EXPECT_EQ(failure.culprit, 1);
    EXPECT_THAT(failure.text, HasSubstr("rank 1 gave [1, 0], rank 0 gave [0, 1]"));
  }
}

TEST_F(MembershipChecks, let_a_group_go_on_whose_number_a_rank_outside_has_given_to_another) {
  hear(2, {2, 0});
  ASSERT_EQ(reported().size(), 1u);
  EXPECT_NE(reported()[0].communicator, subgroup_->global_id());
}

TEST_F(MembershipChecks, hold_back_what_the_lists_may_explain_and_report_it_if_they_do_not) {
  ASSERT_TRUE(check_.hold_back(*subgroup_, doubt_));
  ASSERT_TRUE(check_.doubt(*subgroup_, 1));  // the first word stands
  check_.release(*subgroup_, timeline_.now() + 399ms);
  timeline_.pass(50ms);
  EXPECT_TRUE(reported().empty());
  for (int times = 0; times < 2; ++times) check_.release(*subgroup_, timeline_.now() + 400ms);
  timeline_.pass(50ms);
  ASSERT_EQ(reported().size(), 1u);
  EXPECT_EQ(reported()[0].text, doubt_.text);
}

TEST_F(MembershipChecks, hold_nothing_back_when_the_lists_must_have_come) {
  timeline_.pass(3100ms);
  EXPECT_FALSE(check_.hold_back(*subgroup_, doubt_));
}

TEST_F(MembershipChecks, hold_nothing_back_where_nobody_else_is) {
  const MembershipCheck alone(0, 1, nullptr, timeline_, [](Rank) { return std::string(); });
  EXPECT_FALSE(alone.hold_back(*subgroup_, doubt_));
}

}  // namespace
}  // namespace fabring::fixture

#include "runtime/engine/plans/plan_cache.hpp"

#include <gtest/gtest.h>

namespace fabring {
namespace {

class PlansOf : public testing::Test {
 protected:
  std::shared_ptr<const PreparedPlan> plan(Collective collective, Rank root) {
    Call call;
    call.collective = collective;
    call.algorithm = Algorithm::binomial;
    call.root = root;
    auto found = cache_.find_or_make(call, 0, node_of_);
    EXPECT_TRUE(found.has_value()) << found.error().message();
    return found ? *found : nullptr;
  }
  PlanCache cache_;
  std::vector<int> node_of_ = std::vector<int>(300, 0);
};

// An alltoall of sends and receives, again and again.
TEST_F(PlansOf, MessagesToAndFromAllRanksAreKeptBesideOthers) {
  const auto broadcast = plan(Collective::broadcast, 7);
  std::vector<std::shared_ptr<const PreparedPlan>> first;
  for (int round = 0; round < 2; ++round) {
    std::size_t next = 0;
    for (Rank peer = 0; peer < 300; ++peer)
      for (const Collective collective : {Collective::send, Collective::recv}) {
        const auto found = plan(collective, peer);
        if (round == 0) first.push_back(found);
        EXPECT_EQ(found, first[next++]) << "of rank " << peer << " in round " << round;
      }
  }
  EXPECT_EQ(plan(Collective::recv, any_source), plan(Collective::recv, any_source));
  EXPECT_EQ(plan(Collective::broadcast, 7), broadcast);
}

TEST_F(PlansOf, OfCollectivesWithARootOnlySoManyAreKept) {
  for (Rank root = 0; root < 300; ++root) (void)plan(Collective::broadcast, root);
  EXPECT_EQ(cache_.size(), PlanCache::most_rooted);
}

}  // namespace
}  // namespace fabring

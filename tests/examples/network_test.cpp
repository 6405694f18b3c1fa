// The training example's arithmetic: gradients, buckets, shares.
#include "network.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "trainer.hpp"

namespace train {
namespace {

const std::vector<std::uint8_t> labels{2, 0, 1, 2, 1, 0, 0};

Eigen::MatrixXf inputs(Eigen::Index columns = 7) {
  Eigen::MatrixXf values(6, 7);
  for (Eigen::Index i = 0; i < values.size(); ++i) values.data()[i] = std::sin(static_cast<float>(3 * i + 1));
  return values.leftCols(columns);
}

double loss_of(Network& network) {
  network.forward(inputs());
  return network.backward(labels, [](Bucket) {});
}

TEST(Network, has_the_gradient_of_its_loss) {
  Network network({6, 5, 4, 3}, 1);
  loss_of(network);
  const std::vector<float> gradients(network.gradients().begin(), network.gradients().end());
  double largest = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const float kept = network.parameters()[i];
    const float step = 1e-2f;
    network.parameters()[i] = kept + step;
    const double above = loss_of(network);
    network.parameters()[i] = kept - step;
    const double below = loss_of(network);
    network.parameters()[i] = kept;
    EXPECT_NEAR(gradients[i], (above - below) / (2 * static_cast<double>(step)), 0.05) << "parameter " << i;
    largest = std::max(largest, std::fabs(static_cast<double>(gradients[i])));
  }
  EXPECT_GT(largest, 0.5) << "gradients near zero prove nothing";
}

TEST(Network, completes_every_gradient_once_and_the_last_layer_first) {
  Network network({784, 256, 128, 10}, 1);
  std::vector<int> completed(network.gradients().size());
  std::size_t previous_first = completed.size();
  int buckets = 0;
  network.forward(Eigen::MatrixXf::Random(784, 4));
  const std::vector<std::uint8_t> four{1, 2, 3, 4};
  network.backward(four, [&](Bucket bucket) {
    ASSERT_LE(bucket.first + bucket.count, completed.size());
    for (std::size_t i = bucket.first; i < bucket.first + bucket.count; ++i) ++completed[i];
    if (buckets++ == 0) {
      EXPECT_EQ(bucket.count, 10u * 129);
    }
    previous_first = std::min(previous_first, bucket.first);
  });
  EXPECT_EQ(previous_first, 0u);
  EXPECT_GT(buckets, 3) << "the first layer is large and must come in parts";
  EXPECT_EQ(std::count(completed.begin(), completed.end(), 1), static_cast<std::ptrdiff_t>(completed.size()));
}

// What an allreduce is given must not change any more while the backward pass goes on.
TEST(Network, leaves_completed_buckets_alone) {
  Network network({784, 64, 10}, 1);
  std::vector<std::pair<Bucket, std::vector<float>>> seen;
  network.forward(Eigen::MatrixXf::Random(784, 3));
  const std::vector<std::uint8_t> three{1, 2, 3};
  network.backward(three, [&](Bucket bucket) {
    const auto values = network.gradients().subspan(bucket.first, bucket.count);
    seen.emplace_back(bucket, std::vector<float>(values.begin(), values.end()));
  });
  for (const auto& [bucket, values] : seen) {
    EXPECT_TRUE(
        std::equal(values.begin(), values.end(), network.gradients().begin() + static_cast<long>(bucket.first)));
  }
}

TEST(Network, gradients_of_the_shares_sum_to_those_of_the_batch) {
  Network network({6, 5, 3}, 1);
  const double whole_loss = loss_of(network);
  const std::vector<float> whole(network.gradients().begin(), network.gradients().end());
  std::vector<float> sum(whole.size());
  double loss = 0;
  for (int rank = 0; rank < 9; ++rank) {  // more ranks than images: some have none
    const Share share = share_of(7, rank, 9);
    network.forward(inputs().middleCols(share.first, share.last - share.first));
    loss += network.backward(std::span(labels).subspan(static_cast<std::size_t>(share.first)), [](Bucket) {});
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += network.gradients()[i];
  }
  EXPECT_NEAR(loss, whole_loss, 1e-5);
  for (std::size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(sum[i], whole[i], 1e-5) << i;
}

TEST(Network, takes_momentum_steps_on_the_mean_of_the_gradients) {
  Network network({1, 1}, 1);
  network.parameters()[0] = 1;
  network.gradients()[0] = 8;
  network.update({0, 1}, 4, 0.5f, 0.5f);  // velocity 2
  EXPECT_EQ(network.parameters()[0], 0);
  network.update({0, 1}, 4, 0.5f, 0.5f);  // velocity 3
  EXPECT_EQ(network.parameters()[0], -1.5f);
}

TEST(Share, parts_cover_everything_once_and_differ_by_one_at_most) {
  for (const int items : {0, 1, 7, 512, 10000}) {
    for (const int ranks : {1, 2, 3, 8, 600}) {
      int next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Share share = share_of(items, rank, ranks);
        ASSERT_EQ(share.first, next);
        ASSERT_GE(share.last - share.first, items / ranks);
        ASSERT_LE(share.last - share.first, items / ranks + 1);
        next = share.last;
      }
      ASSERT_EQ(next, items);
    }
  }
}

}  // namespace
}  // namespace train

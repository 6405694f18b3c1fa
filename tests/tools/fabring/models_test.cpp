#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/fabring/models.hpp"

namespace fabring::tests {
namespace {

using testing::HasSubstr;
using namespace tools;

TEST(Models, HaveTheParametersOfTheirArchitectures) {
  const std::pair<const char*, std::uint64_t> counts[] = {
      {"resnet50", 25'557'032}, {"vgg16", 138'357'544}, {"bert-base", 109'482'240}, {"gpt2", 124'439'808}};
  for (const auto& [model, count] : counts) EXPECT_EQ(total_elements(*model_gradients(model)), count) << model;
  const auto resnet = *model_gradients("resnet50");
  EXPECT_EQ(resnet.size(), 161u);
  EXPECT_EQ(resnet.front().name, "fc.bias");  // the last layer's gradients come first
  EXPECT_EQ(resnet.back().name, "conv1.weight");
  EXPECT_EQ(resnet.back().shape, (std::vector<std::int64_t>{64, 3, 7, 7}));
  EXPECT_THAT(model_gradients("resnet5").error().message(), HasSubstr("did you mean 'resnet50'?"));
}

TEST(Models, BucketsHoldEveryByteOnce) {
  const auto gradients = *model_gradients("bert-base");
  const auto buckets = fused_buckets(gradients, 4, 25 << 20);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    sum += buckets[i];
    EXPECT_TRUE(buckets[i] >= (25u << 20) || i + 1 == buckets.size());
  }
  EXPECT_EQ(sum, 4 * total_elements(gradients));
}

}  // namespace
}  // namespace fabring::tests

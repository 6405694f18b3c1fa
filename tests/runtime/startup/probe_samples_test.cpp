// What a probe of the machine times stays within the memory and the links it was given.
#include "runtime/startup/probe_samples.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "collectives/algorithms.hpp"

namespace fabring {
namespace {

constexpr ProbeScope links_only{.links = true, .whole = false};
constexpr ProbeScope everything{.links = true, .whole = true};

TEST(ProbeSamples, AreOfAlgorithmsThatExist) {
  for (const ProbeScope scope : {links_only, everything})
    for (const ProbeSample& sample : probe_samples(scope)) {
      EXPECT_TRUE(has_algorithm(sample.collective, sample.algorithm)) << name(sample.algorithm);
      EXPECT_GT(sample.bytes, 0u);
      EXPECT_LE(sample.bytes, longest_probed(scope, 2)) << "would never be timed";
    }
}

TEST(ProbeSamples, OfAProbeOfLinksAreShort) {
  for (const ProbeSample& sample : probe_samples(links_only)) EXPECT_LE(sample.bytes, 1024u);
}

TEST(ProbeSamples, TakeALimitedAmountOfMemoryFromAHost) {
  for (int ranks = 1; ranks <= 256; ranks *= 2) {
    EXPECT_LE(longest_probed(everything, ranks) * static_cast<std::size_t>(ranks), std::size_t{512} << 20) << ranks;
    EXPECT_GE(longest_probed(everything, ranks), std::size_t{1} << 20);
  }
  EXPECT_EQ(longest_probed(everything, 2), std::ranges::max(chosen_sizes())) << "where there is room for all";
}

}  // namespace
}  // namespace fabring

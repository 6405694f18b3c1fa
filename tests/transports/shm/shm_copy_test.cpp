// How bytes are written to where a peer reads them: which stores, and that they arrive.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "transports/shm/shared_copy.hpp"

namespace fabring::shm {
namespace {

constexpr std::size_t copied = 16 * 1024;

/// Two cores: what a byte costs by either kind of store, in nanoseconds.
struct CopyCost {
  double ordinary = 0;
  double streaming = 0;
};
constexpr CopyCost sharing_a_cache{0.03, 0.045}, far_apart{0.5, 0.045};

/// Copies made by streaming.
int copy_times(StoreChoice& choice, const CopyCost& cost, int times, std::int64_t stall_in_every = 0) {
  int streamed = 0;
  for (int i = 0; i < times; ++i) {
    const StoreChoice::Turn turn = choice.next();
    const bool streams = turn.stores == Stores::streaming;
    streamed += streams ? 1 : 0;
    auto took = static_cast<std::int64_t>((streams ? cost.streaming : cost.ordinary) * copied);
    if (stall_in_every != 0 && i % stall_in_every == 0) took += 4'000'000;  // the processor was taken away
    if (turn.measured) choice.took(turn.stores, copied, took);
  }
  return streamed;
}

TEST(ShmStoreChoice, KeepsOrdinaryStoresBetweenCoresThatShareACache) {
  StoreChoice choice;
  const int periods = 20, times = periods * static_cast<int>(StoreChoice::trial_period);
  EXPECT_LE(copy_times(choice, sharing_a_cache, times), 4 * periods);
  EXPECT_EQ(choice.best(), Stores::ordinary);
}

TEST(ShmStoreChoice, StreamsBetweenCoresFarApart) {
  StoreChoice choice;
  const int periods = 20, times = periods * static_cast<int>(StoreChoice::trial_period);
  EXPECT_GE(copy_times(choice, far_apart, times), times - 4 * (periods + 1));
  EXPECT_EQ(choice.best(), Stores::streaming);
}

TEST(ShmStoreChoice, FollowsProcessesFromCoreToCore) {
  StoreChoice choice;
  const int period = static_cast<int>(StoreChoice::trial_period);
  for (int i = 0; i < 10; ++i) {
    copy_times(choice, sharing_a_cache, 2 * period);
    EXPECT_EQ(choice.best(), Stores::ordinary) << i;
    copy_times(choice, far_apart, 50);  // long before the next trial
    EXPECT_EQ(choice.best(), Stores::streaming) << i;
  }
}

TEST(ShmStoreChoice, IsNotMisledByAProcessorThatIsTakenAway) {
  StoreChoice near, far;
  const int times = 20 * static_cast<int>(StoreChoice::trial_period);
  EXPECT_LE(copy_times(near, sharing_a_cache, times, 16), times / 100);
  EXPECT_GE(copy_times(far, far_apart, times, 16), times - times / 100);
}

// Whatever lies beside what is copied stays as it was.
TEST(ShmStreamingCopy, CopiesAtAnyPlaceAndLength) {
  std::mt19937 random(1);
  std::vector<std::byte> from(5000), to(5200);
  for (std::byte& byte : from) byte = static_cast<std::byte>(random());
  for (std::size_t place = 0; place < 130; ++place) {
    const std::size_t begin = random() % 64;
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{63}, std::size_t{64}, std::size_t{65},
                                    std::size_t{200}, std::size_t{4096}, 3000 + random() % 1000}) {
      std::ranges::fill(to, std::byte{0xa5});
      streaming_copy(to.data() + place, from.data() + begin, bytes);
      const auto first = to.begin() + static_cast<std::ptrdiff_t>(place),
                 last = first + static_cast<std::ptrdiff_t>(bytes);
      ASSERT_TRUE(std::equal(first, last, from.begin() + static_cast<std::ptrdiff_t>(begin))) << place << " " << bytes;
      const auto untouched = [](std::byte byte) { return byte == std::byte{0xa5}; };
      ASSERT_TRUE(std::all_of(to.begin(), first, untouched) && std::all_of(last, to.end(), untouched))
          << place << " " << bytes;
    }
  }
}

// Long enough that both kinds of stores are used.
TEST(ShmSharedCopy, CopiesBytesHoweverOftenAndLong) {
  std::mt19937 random(2);
  SharedCopy copies;
  std::vector<std::byte> from(40'000), to(40'100);
  for (std::byte& byte : from) byte = static_cast<std::byte>(random());
  for (int i = 0; i < 3000; ++i) {
    const std::size_t bytes = random() % from.size(), place = random() % 100;
    copies.copy(to.data() + place, from.data() + (from.size() - bytes), bytes);
    ASSERT_TRUE(std::equal(from.end() - static_cast<std::ptrdiff_t>(bytes), from.end(),
                           to.begin() + static_cast<std::ptrdiff_t>(place)));
  }
}

}  // namespace
}  // namespace fabring::shm

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "collectives/reduce/reduce.hpp"

namespace fabring {
namespace {

// Composition of x -> a x + b: associative, and not commutative.
struct Affine {
  std::uint32_t factor, offset;
  bool operator==(const Affine&) const = default;
};
Affine then(Affine first, Affine second) {
  return {first.factor * second.factor, first.offset * second.factor + second.offset};
}

struct Calls {
  std::size_t count = 0, elements = 0;
};

// One Affine per uint64.
void compose(void* inout, const void* in, std::size_t count, DataType type, void* context) {
  ASSERT_EQ(type, DataType::uint64);
  auto* calls = static_cast<Calls*>(context);
  ++calls->count;
  calls->elements += count;
  auto* left = static_cast<Affine*>(inout);
  const auto* right = static_cast<const Affine*>(in);
  for (std::size_t i = 0; i < count; ++i) left[i] = then(left[i], right[i]);
}

std::vector<Affine> values(std::size_t count, std::uint32_t seed) {
  std::vector<Affine> result(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto n = static_cast<std::uint32_t>(i);
    result[i] = {2 * (n * 7919 + seed) + 1, n * 104729 + 31 * seed};
  }
  return result;
}

std::vector<Affine> expected(const std::vector<std::vector<Affine>>& sources, std::size_t count) {
  std::vector<Affine> result(sources[0].begin(), sources[0].begin() + static_cast<std::ptrdiff_t>(count));
  for (std::size_t s = 1; s < sources.size(); ++s)
    for (std::size_t i = 0; i < count; ++i) result[i] = then(result[i], sources[s][i]);
  return result;
}

// Lengths around the blocks of 8 KiB, which are 1024 elements here.
constexpr std::array<std::size_t, 7> user_counts{1, 2, 1023, 1024, 1025, 2048, 5000};

TEST(ReduceUser, folds_left_to_right) {
  for (const std::size_t count : user_counts) {
    for (const std::size_t k : {1U, 2U, 3U, 8U}) {
      std::vector<std::vector<Affine>> sources;
      std::vector<const void*> pointers;
      for (std::size_t s = 0; s < k; ++s) sources.push_back(values(count, static_cast<std::uint32_t>(s)));
      for (const auto& source : sources) pointers.push_back(source.data());
      std::vector<Affine> to(count + 1, Affine{5, 5});
      Calls calls;
      reduce_user(DataType::uint64, compose, &calls, to.data(), pointers, count);
      EXPECT_EQ(to.back(), (Affine{5, 5})) << "wrote after its output";
      to.pop_back();
      ASSERT_EQ(to, expected(sources, count)) << k << " sources of " << count;
      EXPECT_EQ(calls.elements, (k - 1) * count);
    }
  }
}

TEST(ReduceUser, may_write_over_any_of_its_sources) {
  for (const std::size_t count : user_counts) {
    for (const std::size_t k : {1U, 2U, 3U, 5U}) {
      for (std::size_t target = 0; target < k; ++target) {
        std::vector<std::vector<Affine>> sources;
        std::vector<const void*> pointers;
        for (std::size_t s = 0; s < k; ++s) sources.push_back(values(count, static_cast<std::uint32_t>(s)));
        for (const auto& source : sources) pointers.push_back(source.data());
        const std::vector<Affine> wanted = expected(sources, count);
        Calls calls;
        reduce_user(DataType::uint64, compose, &calls, sources[target].data(), pointers, count);
        ASSERT_EQ(sources[target], wanted) << "over source " << target << " of " << k << ", " << count;
      }
    }
  }
}

// x op x, to x: the right operand must still be x when the function reads it.
TEST(ReduceUser, may_write_over_a_source_that_is_given_twice) {
  std::vector<Affine> data = values(3000, 1);
  const std::vector<Affine> wanted = expected({data, data, data}, data.size());
  const std::vector<const void*> pointers(3, data.data());
  Calls calls;
  reduce_user(DataType::uint64, compose, &calls, data.data(), pointers, data.size());
  EXPECT_EQ(data, wanted);
}

TEST(ReduceUser, gives_the_function_whole_elements_that_do_not_overlap) {
  struct Seen {
    DataType type;
    std::size_t elements = 0;
  };
  for (int t = 0; t < data_type_count; ++t) {
    Seen seen{static_cast<DataType>(t)};
    const std::size_t width = size_of(seen.type), count = 20011;
    std::vector<std::byte> first(count * width), second(count * width, std::byte{3});
    const std::array<const void*, 2> sources{first.data(), second.data()};
    const auto copy_right = [](void* inout, const void* in, std::size_t n, DataType type, void* context) {
      auto* told = static_cast<Seen*>(context);
      EXPECT_EQ(type, told->type);
      told->elements += n;
      const auto left = reinterpret_cast<std::uintptr_t>(inout), right = reinterpret_cast<std::uintptr_t>(in);
      EXPECT_EQ(left % size_of(type), 0U);
      EXPECT_TRUE(left + n * size_of(type) <= right || right + n * size_of(type) <= left);
      std::memcpy(inout, in, n * size_of(type));
    };
    reduce_user(seen.type, copy_right, &seen, first.data(), sources, count);
    EXPECT_EQ(seen.elements, count);
    EXPECT_EQ(first, second);
  }
}

TEST(ReduceUser, calls_nothing_for_no_elements) {
  const std::array<const void*, 2> sources{nullptr, nullptr};
  Calls calls;
  reduce_user(DataType::uint64, compose, &calls, nullptr, sources, 0);
  EXPECT_EQ(calls.count, 0U);
}

// What other ranks wait for would never come, and who called could not know how far it is.
TEST(ReduceUserDeathTest, AFunctionThatThrowsEndsTheProcessWithWhatItSaid) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::uint64_t one = 1, other = 2;
  std::uint64_t result = 0;
  const void* sources[] = {&one, &other};
  const auto throws = [](void*, const void*, std::size_t, DataType, void*) {
    throw std::runtime_error("no such unit");
  };
  EXPECT_DEATH(reduce_user(DataType::uint64, throws, nullptr, &result, sources, 1),
               "function of a user-defined operation threw an exception .no such unit.*this process ends");
}

}  // namespace
}  // namespace fabring

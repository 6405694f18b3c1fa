#include "collectives/reduce/reduce.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <tuple>

#include "oracle.hpp"
#include "target_fixture.hpp"

namespace fabring {
namespace {

constexpr std::size_t most = 1037;

using Bytes = std::vector<std::byte>;

// `count` elements of interesting bits, starting one element into its memory: aligned to the element only.
class Source {
 public:
  Source(DataType type, std::size_t count, std::mt19937_64& random)
      : width_(size_of(type)), bytes_((count + 2) * width_) {
    for (std::size_t i = 0; i < count + 2; ++i) {
      const std::uint64_t bits = interesting_bits(type, random);
      std::memcpy(bytes_.data() + i * width_, &bits, width_);
    }
  }
  std::byte* data() { return bytes_.data() + width_; }
  const Bytes& bytes() const { return bytes_; }

 private:
  std::size_t width_;
  Bytes bytes_;
};

std::vector<std::size_t> counts() {
  std::vector<std::size_t> all(71);
  std::iota(all.begin(), all.end(), 0);
  all.insert(all.end(), {127, 128, 129, 255, 256, 257, 1001, most});
  return all;
}

class ReduceOnTarget : public OnTarget {
 protected:
  // Expects to[0, count) to be what the oracle says, and the elements around it as they were.
  static void expect_reduced(DataType type, ReduceOp op, const std::vector<const void*>& sources, Source& to,
                             std::size_t count) {
    std::vector<const std::byte*> bytes;
    for (const void* source : sources) bytes.push_back(static_cast<const std::byte*>(source));
    const Bytes expected = oracle::reduce(type, op, bytes, count);
    const Bytes before = to.bytes();
    reduce(type, op, to.data(), sources, count);
    const std::size_t width = size_of(type);
    const auto text = [&] {
      return std::string(name(op)) + " of " + std::string(name(type)) + ", " + std::to_string(sources.size()) +
             " sources, " + std::to_string(count) + " elements";
    };
    for (std::size_t i = 0; i < count; ++i) {
      if (std::memcmp(to.data() + i * width, expected.data() + i * width, width) == 0) continue;
      std::uint64_t got = 0, wanted = 0;
      std::memcpy(&got, to.data() + i * width, width);
      std::memcpy(&wanted, expected.data() + i * width, width);
      FAIL() << text() << ": element " << i << " is " << std::hex << got << ", wanted " << wanted;
    }
    ASSERT_EQ(std::memcmp(to.bytes().data(), before.data(), width), 0) << text() << ": wrote before its output";
    const std::size_t end = (count + 1) * width;
    ASSERT_EQ(std::memcmp(to.bytes().data() + end, before.data() + end, before.size() - end), 0)
        << text() << ": wrote after its output";
  }
};

class EveryType : public ReduceOnTarget {
 protected:
  template <class Body>
  static void for_each_type_and_op(Body body) {
    for (int type = 0; type < data_type_count; ++type) {
      for (int op = 0; op < reduce_op_count; ++op) {
        const auto reduce_op = static_cast<ReduceOp>(op);
        if (reduce_op == ReduceOp::user || !supports(static_cast<DataType>(type), reduce_op)) continue;
        body(static_cast<DataType>(type), reduce_op);
        if (HasFatalFailure()) return;
      }
    }
  }
};

TEST_P(EveryType, equals_the_oracle_bit_for_bit_at_every_count) {
  std::mt19937_64 random(1);
  for_each_type_and_op([&](DataType type, ReduceOp op) {
    for (const std::size_t k : {1, 2, 3, 5, 8}) {
      std::vector<Source> memory;
      std::vector<const void*> sources;
      for (std::size_t i = 0; i < k; ++i) memory.emplace_back(type, most, random);
      for (Source& source : memory) sources.push_back(source.data());
      Source to(type, most, random);
      for (const std::size_t count : counts()) {
        expect_reduced(type, op, sources, to, count);
        if (HasFatalFailure()) return;
      }
    }
  });
}

TEST_P(EveryType, may_write_over_any_of_its_sources) {
  std::mt19937_64 random(2);
  for_each_type_and_op([&](DataType type, ReduceOp op) {
    for (const std::size_t k : {1, 2, 3, 5}) {
      for (std::size_t target = 0; target < k; ++target) {
        std::vector<Source> memory;
        std::vector<const void*> sources;
        for (std::size_t i = 0; i < k; ++i) memory.emplace_back(type, most, random);
        for (Source& source : memory) sources.push_back(source.data());
        for (const std::size_t count : {std::size_t{1}, std::size_t{63}, most}) {
          expect_reduced(type, op, sources, memory[target], count);
          if (HasFatalFailure()) return;
        }
      }
    }
  });
}

// Large operands are first brought to alignment.
TEST_P(EveryType, equals_the_oracle_when_large_and_misaligned) {
  std::mt19937_64 random(4);
  constexpr std::size_t large = 17011;
  for (int type = 0; type < data_type_count; ++type) {
    const auto data_type = static_cast<DataType>(type);
    Source first(data_type, large, random), second(data_type, large, random), to(data_type, large, random);
    expect_reduced(data_type, ReduceOp::sum, {first.data(), second.data()}, to, large);
    if (HasFatalFailure()) return;
    expect_reduced(data_type, ReduceOp::max, {first.data(), second.data(), to.data()}, second, large);
    if (HasFatalFailure()) return;
  }
}

TEST_P(EveryType, takes_the_same_source_twice_and_a_hundred_sources) {
  std::mt19937_64 random(3);
  for_each_type_and_op([&](DataType type, ReduceOp op) {
    Source source(type, most, random), to(type, most, random);
    expect_reduced(type, op, {source.data(), source.data()}, to, 300);
    if (HasFatalFailure()) return;
    expect_reduced(type, op, std::vector<const void*>(100, source.data()), to, 77);
  });
}

INSTANTIATE_TEST_SUITE_P(Target, EveryType, every_target(), target_name);

TEST(ReduceTargets, name_the_one_in_use) {
  ASSERT_FALSE(reduce_targets().empty());
  EXPECT_EQ(reduce_target(), reduce_targets().front());
  for (const std::string& target : reduce_targets()) {
    EXPECT_TRUE(force_reduce_target(target));
    EXPECT_EQ(reduce_target(), target);
  }
  EXPECT_FALSE(force_reduce_target("ABACUS"));
  EXPECT_TRUE(force_reduce_target(""));
  EXPECT_EQ(reduce_target(), reduce_targets().front());
}

}  // namespace
}  // namespace fabring

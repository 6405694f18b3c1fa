// The GPU kernels without a GPU: their own code, thread by thread, in any order of the threads, against the processor's
// kernels, bit for bit.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "collectives/reduce/reduce.hpp"
#include "device/cuda/kernel_choice.hpp"
#include "tests/collectives/reduce/target_fixture.hpp"
#include "tests/support/host_kernels.hpp"

namespace fabring::fixture {
namespace {

using cuda::KernelCall;

// So many elements `offset` bytes after a multiple of 64, between bytes that nobody may change.
class Buffer {
 public:
  static constexpr std::size_t guard = 64;
  Buffer(DataType type, std::size_t count, std::size_t offset, std::mt19937_64& random)
      : bytes_(count * size_of(type)), memory_(bytes_ + 3 * guard + 64) {
    at_ = memory_.data() + guard;
    at_ += (64 - reinterpret_cast<std::uintptr_t>(at_) % 64) % 64 + offset;
    const std::size_t width = size_of(type);
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t bits = interesting_bits(type, random);
      std::memcpy(at_ + i * width, &bits, width);
    }
    before_ = memory_;
  }
  std::byte* data() { return at_; }
  bool equals(const std::vector<std::byte>& other) const { return std::equal(at_, at_ + bytes_, other.begin()); }
  std::vector<std::byte> contents() const { return {at_, at_ + bytes_}; }
  bool guards_intact() const {
    const auto from = static_cast<std::size_t>(at_ - memory_.data());
    return std::memcmp(memory_.data(), before_.data(), from) == 0 &&
           std::memcmp(at_ + bytes_, before_.data() + from + bytes_, memory_.size() - from - bytes_) == 0;
  }

 private:
  std::size_t bytes_;
  std::vector<std::byte> memory_, before_;
  std::byte* at_;
};

void run(const KernelCall& call, std::mt19937_64& random) {
  if (call.kernel.empty()) {
    std::memmove(call.task.to, call.task.sources[0], call.task.count * call.element_bytes);
    return;
  }
  const HostKernel kernel = find_host_kernel(call.kernel);
  ASSERT_NE(kernel, nullptr) << call.kernel;
  // Fewer threads than there is to do, or more.
  const std::uint64_t useful = cuda::kernels::threads_of(call.task, call.element_bytes);
  std::vector<std::uint64_t> threads(1 + random() % (useful + 3));
  std::iota(threads.begin(), threads.end(), 0);
  std::shuffle(threads.begin(), threads.end(), random);
  for (const std::uint64_t thread : threads) kernel(call.task, thread, threads.size());
}

std::vector<std::byte> expected(DataType type, ReduceOp op, const std::vector<const std::byte*>& sources,
                                std::size_t count, int ranks) {
  std::vector<std::byte> to(count * size_of(type));
  const std::vector<const void*> from(sources.begin(), sources.end());
  reduce(type, op, to.data(), from, count);
  if (op == ReduceOp::avg) finish_average(type, to.data(), count, ranks);
  return to;
}

class Kernels : public ::testing::TestWithParam<int> {
 protected:
  DataType type() const { return static_cast<DataType>(GetParam()); }
};

struct Shape {
  std::size_t sources, count;
  bool aligned_alike;
  bool in_place;
};

void check(DataType type, ReduceOp op, const Shape& shape, std::mt19937_64& random) {
  const std::size_t width = size_of(type);
  const int ranks = static_cast<int>(shape.sources + random() % 3);
  const std::size_t common = random() % 16 / width * width;
  const auto offset = [&] { return shape.aligned_alike ? common : random() % 16 / width * width; };
  std::vector<Buffer> buffers;
  for (std::size_t i = 0; i < shape.sources; ++i) buffers.emplace_back(type, shape.count, offset(), random);
  Buffer apart(type, shape.count, offset(), random);
  std::vector<const std::byte*> sources;
  for (Buffer& buffer : buffers) sources.push_back(buffer.data());
  Buffer& to = shape.in_place ? buffers[random() % buffers.size()] : apart;
  const auto right = expected(type, op, sources, shape.count, ranks);
  SCOPED_TRACE(testing::Message() << name(op) << " of " << name(type) << ", " << shape.sources << " x " << shape.count
                                  << (shape.in_place ? ", in place" : "") << (shape.aligned_alike ? "" : ", askew"));
  const auto call = cuda::choose_kernel({type, op, to.data(), sources, shape.count, ranks});
  ASSERT_TRUE(call.has_value()) << call.error().message();
  run(*call, random);
  if (!to.equals(right)) {
    const auto got = to.contents();
    const auto wrong =
        static_cast<std::size_t>(std::mismatch(right.begin(), right.end(), got.begin()).first - right.begin());
    FAIL() << "byte " << wrong << " (element " << wrong / width << ") is " << std::to_integer<int>(got[wrong])
           << " and not " << std::to_integer<int>(right[wrong]);
  }
  EXPECT_TRUE(to.guards_intact());
}

TEST_P(Kernels, give_the_bits_of_the_processors_for_every_operation_and_number_of_sources_wherever_buffers_lie) {
  std::mt19937_64 random(static_cast<std::uint64_t>(GetParam()));
  for (int o = 0; o < reduce_op_count; ++o) {
    const auto op = static_cast<ReduceOp>(o);
    if (!supports(type(), op) || op == ReduceOp::user) continue;
    for (const std::size_t sources : {1, 2, 3, 4, 5, 6, 7, 8, 9, 17, 64})
      for (const std::size_t count : {0, 1, 2, 7, 16, 33, 100, 517})
        for (const bool alike : {true, false})
          for (const bool in_place : {true, false}) {
            check(type(), op, {sources, count, alike, in_place}, random);
            if (HasFatalFailure()) return;
          }
  }
}

// All values there are, two by two where there are few.
TEST_P(Kernels, know_every_16_bit_and_8_bit_number) {
  if (size_of(type()) > 2) return;
  std::mt19937_64 random(3);
  const std::size_t values = size_of(type()) == 1 ? 256 : 65536;
  const std::size_t count = size_of(type()) == 1 ? values * values : values * 4;
  const std::size_t width = size_of(type());
  std::vector<std::byte> left(count * width), right(count * width), to(count * width);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t a = i % values, b = width == 1 ? i / values : random() % values;
    std::memcpy(left.data() + i * width, &a, width);
    std::memcpy(right.data() + i * width, &b, width);
  }
  const std::vector<const std::byte*> sources{left.data(), right.data()};
  for (int o = 0; o < reduce_op_count; ++o) {
    const auto op = static_cast<ReduceOp>(o);
    if (!supports(type(), op) || op == ReduceOp::user) continue;
    const auto call = cuda::choose_kernel({type(), op, to.data(), sources, count, 3});
    ASSERT_TRUE(call.has_value());
    run(*call, random);
    EXPECT_EQ(to, expected(type(), op, sources, count, 3)) << name(op);
  }
}

TEST_P(Kernels, scale_as_the_processor_does) {
  if (!supports(type(), ReduceOp::premul_sum)) return;
  std::mt19937_64 random(5);
  const std::size_t width = size_of(type());
  const bool small_float = is_floating_point(type()) && width < 4;
  for (const std::size_t count : {0, 1, 3, 16, 100, 517})
    for (int draw = 0; draw < 10; ++draw) {
      const std::uint64_t factor = interesting_bits(small_float ? DataType::float32 : type(), random);
      Buffer from(type(), count, random() % 16 / width * width, random);
      Buffer apart(type(), count, random() % 16 / width * width, random);
      Buffer& to = draw % 2 == 0 ? from : apart;
      std::vector<std::byte> right(count * width);
      scale(type(), right.data(), from.data(), &factor, count);
      const auto call = cuda::choose_scaling(type(), to.data(), from.data(), &factor, count);
      ASSERT_TRUE(call.has_value());
      run(*call, random);
      EXPECT_TRUE(to.equals(right)) << count;
      EXPECT_TRUE(to.guards_intact());
    }
}

INSTANTIATE_TEST_SUITE_P(Every, Kernels, ::testing::Range(0, data_type_count),
                         [](const auto& of) { return std::string(name(static_cast<DataType>(of.param))); });

TEST(KernelChoice, goes_by_sixteen_bytes_whenever_all_buffers_lie_alike) {
  alignas(64) static std::byte memory[3][1024];
  const std::vector<const std::byte*> alike{memory[0] + 4, memory[1] + 20};
  auto call = cuda::choose_kernel({DataType::float32, ReduceOp::sum, memory[2] + 36, alike, 100});
  EXPECT_EQ(call->task.head, 3u);
  EXPECT_EQ(call->task.packs, 24u);
  EXPECT_EQ(cuda::kernels::threads_of(call->task, 4), 24u);
  const std::vector<const std::byte*> askew{memory[0] + 4, memory[1] + 8};
  call = cuda::choose_kernel({DataType::float32, ReduceOp::sum, memory[2] + 4, askew, 100});
  EXPECT_EQ(call->task.packs, 0u);
  EXPECT_EQ(cuda::kernels::threads_of(call->task, 4), 25u);
}

TEST(KernelChoice, refuses_what_no_kernel_does) {
  alignas(16) std::byte memory[64] = {};
  const std::vector<const std::byte*> one{memory}, many(65, memory), shifted{memory, memory + 2}, none;
  const auto refused = [&](DataType type, ReduceOp op, const std::vector<const std::byte*>& sources, int ranks = 1) {
    const auto call = cuda::choose_kernel({type, op, memory, sources, 4, ranks});
    return !call.has_value() && call.error().code() == ErrorCode::invalid_argument;
  };
  EXPECT_TRUE(refused(DataType::float32, ReduceOp::user, one));
  EXPECT_TRUE(refused(DataType::float32, ReduceOp::bitwise_or, one));
  EXPECT_TRUE(refused(DataType::float32, ReduceOp::sum, many));
  EXPECT_TRUE(refused(DataType::float32, ReduceOp::sum, none));
  EXPECT_TRUE(refused(DataType::float32, ReduceOp::sum, shifted));
  EXPECT_TRUE(refused(DataType::float32, ReduceOp::avg, one, 0));
  EXPECT_FALSE(refused(DataType::float32, ReduceOp::sum, one));
  EXPECT_FALSE(cuda::choose_scaling(DataType::boolean, memory, memory, memory, 4).has_value());
}

}  // namespace
}  // namespace fabring::fixture

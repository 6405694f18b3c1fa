// Memory of a GPU that one process shows to another: what it says of it, and what the other makes of that.

#include <cstring>
#include <string>

#include "tests/device/begun_cuda.hpp"

namespace fabring {
namespace {

class CudaShares : public BegunCuda {};

TEST_F(CudaShares, memory_of_this_process_is_opened_where_it_is) {
  std::byte* const block = *runtime->allocate(1, 1000);
  const auto share = runtime->share(block + 10, 100);
  ASSERT_TRUE(share.has_value()) << share.error().message();
  EXPECT_EQ(share->bytes, 1000u);
  EXPECT_EQ(share->offset, 10u);
  EXPECT_EQ((*runtime->open_share(0, {*share, {}})).get(), block + 10);
  const auto again = runtime->share(block + 500, 500);  // known by then
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->offset, 500u);
  EXPECT_EQ((*runtime->open_share(0, {*again, {}})).get(), block + 500);
  EXPECT_EQ(runtime->share(block, 1001).error().code(), ErrorCode::invalid_argument);
  int on_the_stack = 0;
  EXPECT_EQ(runtime->share(reinterpret_cast<std::byte*>(&on_the_stack), 4).error().code(), ErrorCode::invalid_argument);
  runtime->free(1, block);
  EXPECT_FALSE(runtime->open_share(0, {*share, {}}).has_value());
  EXPECT_EQ(runtime->share(block, 10).error().code(), ErrorCode::device_error);
}

TEST_F(CudaShares, kernels_read_memory_of_another_gpu_of_this_process_once_it_was_opened_for_theirs) {
  if (!HAS_KERNELS) GTEST_SKIP() << "built without kernels";
  ASSERT_TRUE(runtime->load_kernels(0).ok());
  const auto queue = *runtime->open_queue(0);
  std::byte* const there = *runtime->allocate(1, 64);
  std::byte* const here = *runtime->allocate(0, 64);
  std::memset(see(there), 3, 64);
  std::memset(see(here), 4, 64);
  const DeviceShare share{*runtime->share(there, 64), {}};
  setenv("FAKE_CUDA_NO_PEERS", "1", 1);
  const auto refused = runtime->open_share(0, share);
  unsetenv("FAKE_CUDA_NO_PEERS");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), ErrorCode::unsupported);
  for (int i = 0; i < 2; ++i) {
    const auto opened = runtime->open_share(0, share);
    ASSERT_TRUE(opened.has_value()) << opened.error().message();
    const std::byte* const sources[] = {here, opened->get()};
    ASSERT_TRUE(queue->post_reduce({DataType::uint8, ReduceOp::sum, here, sources, 64}).ok());
    ASSERT_TRUE(queue->post_mark().ok());
    ASSERT_TRUE(wait_for(*queue, static_cast<std::uint64_t>(i) + 1)) << "the kernel has failed";
    EXPECT_EQ(see(here)[63], std::byte(7 + 3 * i));
  }
  setenv("FAKE_CUDA_PIECES", "1", 1);
  std::byte* const pieces = *runtime->allocate(1, 64);
  unsetenv("FAKE_CUDA_PIECES");
  EXPECT_EQ(runtime->open_share(0, {*runtime->share(pieces, 64), {}}).error().code(), ErrorCode::unsupported);
}

// A driver has more reasons than it documents (CUDA_ERROR_TOO_MANY_PEERS, CUDA_ERROR_OPERATING_SYSTEM,
// CUDA_ERROR_INVALID_DEVICE); what comes in full instead is right. One that says that the GPU is broken is believed.
TEST_F(CudaShares, whatever_keeps_memory_of_another_process_from_being_opened_is_a_refusal) {
  DeviceShare share{*runtime->share(*runtime->allocate(0, 1000), 1000), {}};
  share.facts.process.pid += 1;
  for (const char* answer : {"711", "304", "101", "999"}) {
    setenv("FAKE_CUDA_OPEN", answer, 1);
    EXPECT_EQ(runtime->open_share(0, share).error().code(), ErrorCode::unsupported) << answer;
  }
  for (const char* answer : {"700", "214", "719", "4"}) {
    setenv("FAKE_CUDA_OPEN", answer, 1);
    EXPECT_EQ(runtime->open_share(0, share).error().code(), ErrorCode::device_error) << answer;
  }
  unsetenv("FAKE_CUDA_OPEN");
}

// A peer says it; nothing of it may crash this process, or have its kernels go where there is nothing.
TEST_F(CudaShares, what_another_process_says_of_its_memory_is_checked) {
  std::byte* const block = *runtime->allocate(0, 1000);
  const auto opened = [&](auto&& change) {
    DeviceShare share{*runtime->share(block, 1000), {}};
    share.facts.process.pid += 1;  // somebody else
    change(share);
    const auto result = runtime->open_share(0, share);
    return result.has_value() ? ErrorCode::ok : result.error().code();
  };
  EXPECT_EQ(opened([](DeviceShare&) {}), ErrorCode::unsupported);  // the handle is no other process's
  EXPECT_EQ(opened([](DeviceShare& share) { share.facts.handle.fill(std::byte{0xff}); }), ErrorCode::unsupported);
  EXPECT_EQ(opened([](DeviceShare& share) { share.facts.bytes = 0; }), ErrorCode::invalid_argument);
  EXPECT_EQ(opened([](DeviceShare& share) { share.facts.offset = 1000; }), ErrorCode::invalid_argument);
  EXPECT_EQ(opened([](DeviceShare& share) { share.facts.base = UINT64_MAX; }), ErrorCode::invalid_argument);
  EXPECT_EQ(opened([](DeviceShare& share) { share.facts.pieces = 1; }), ErrorCode::invalid_argument);
  EXPECT_EQ(opened([](DeviceShare& share) { share.facts.pieces = 1u << 31; }), ErrorCode::invalid_argument);
  EXPECT_EQ(opened([](DeviceShare& share) {
              share.facts.pieces = 1;
              share.facts.piece_bytes[0] = 1001;
              share.descriptors.emplace_back(::dup(0));
            }),
            ErrorCode::invalid_argument);
  EXPECT_EQ(opened([](DeviceShare& share) {  // a descriptor of anything
              share.facts.pieces = 1;
              share.facts.piece_numbers[0] = 1;
              share.facts.bytes = share.facts.piece_bytes[0] = 2 << 20;
              share.descriptors.emplace_back(::dup(0));
            }),
            ErrorCode::unsupported);
  DeviceShare own{*runtime->share(block, 1000), {}};
  int on_the_stack = 0;
  own.facts.base = reinterpret_cast<std::uintptr_t>(&on_the_stack);
  own.facts.offset = 0;
  EXPECT_EQ(runtime->open_share(0, own).error().code(), ErrorCode::invalid_argument);
  own.facts.base = 4096;
  EXPECT_EQ(runtime->open_share(0, own).error().code(), ErrorCode::device_error);
}

TEST_F(CudaShares, what_claims_to_be_of_this_process_is_checked_too) {
  std::byte* const block = *runtime->allocate(0, 1000);
  const DeviceShare::Facts right = *runtime->share(block + 10, 100);
  const auto opened = [&](auto&& change) {
    DeviceShare own{right, {}};
    change(own.facts);
    const auto result = runtime->open_share(0, own);
    return result.has_value() ? ErrorCode::ok : result.error().code();
  };
  EXPECT_EQ(opened([](auto&) {}), ErrorCode::ok);
  EXPECT_EQ(opened([](auto& facts) { facts.bytes *= 2; }), ErrorCode::invalid_argument);
  EXPECT_EQ(opened([](auto& facts) { facts.offset = 1000; }), ErrorCode::device_error) << "nothing is there";
  EXPECT_EQ(opened([](auto& facts) { facts.base += 10; }), ErrorCode::invalid_argument);
  EXPECT_EQ(opened([](auto& facts) {
              facts.base += 10;
              facts.bytes -= 10;
            }),
            ErrorCode::invalid_argument);
  EXPECT_EQ(opened([](auto& facts) {
              facts.pieces = 1;
              facts.bytes *= 2;
            }),
            ErrorCode::invalid_argument);
}

TEST_F(CudaShares, pieces_of_another_process_are_opened_with_descriptors_and_found_again_without) {
  constexpr std::size_t piece = 2 << 20;
  setenv("FAKE_CUDA_PIECES", "1", 1);
  std::byte* const block = *runtime->allocate(0, 3 * piece);
  unsetenv("FAKE_CUDA_PIECES");
  const auto shared = [&](std::size_t offset, std::size_t bytes, bool with_descriptors) {
    DeviceShare share{*runtime->share(block + offset, bytes), {}};
    if (with_descriptors) share.descriptors = *runtime->export_pieces(share.facts);
    share.facts.process.pid += 1;  // somebody else
    return share;
  };
  const DeviceShare all = shared(5, 3 * piece - 5, true);
  EXPECT_EQ(all.facts.pieces, 3u);
  EXPECT_EQ(all.facts.offset, 5u);
  EXPECT_EQ(shared(piece + 7, piece, false).facts.pieces, 2u) << "the second and the third";
  EXPECT_EQ(runtime->open_share(0, {all.facts, {}}).error().code(), ErrorCode::unavailable);
  const auto opened = runtime->open_share(0, all);
  ASSERT_TRUE(opened.has_value()) << opened.error().message();
  EXPECT_NE(opened->get(), block + 5);
  std::memset(see(block + 2 * piece - 1), 42, 2);
  EXPECT_EQ(*see(opened->get() + 2 * piece - 6), std::byte{42});
  EXPECT_EQ(*see(opened->get() + 2 * piece - 5), std::byte{42}) << "pieces are side by side";
  EXPECT_EQ(runtime->open_share(0, shared(9, 1, false)).error().code(), ErrorCode::unavailable) << "other pieces";
  EXPECT_EQ((*runtime->open_share(0, shared(9, 3 * piece - 9, false))).get(), opened->get() + 4);
  // Those of a part beside all of them, and neither pushes the other out.
  ASSERT_TRUE(runtime->open_share(0, shared(piece, piece, true)).has_value());
  EXPECT_TRUE(runtime->open_share(0, {all.facts, {}}).has_value());
  EXPECT_TRUE(runtime->open_share(0, shared(piece, piece, false)).has_value());
  // A piece at whose place another is now.
  DeviceShare changed = shared(2 * piece, 1, true);
  changed.facts.piece_numbers[0] += 1000;
  ASSERT_TRUE(runtime->open_share(0, changed).has_value());
  EXPECT_EQ(runtime->open_share(0, {all.facts, {}}).error().code(), ErrorCode::unavailable);
  EXPECT_TRUE(runtime->open_share(0, shared(piece, piece, false)).has_value());
  runtime->free(0, block);
  EXPECT_EQ(runtime->export_pieces(all.facts).error().code(), ErrorCode::device_error);
}

TEST_F(CudaShares, memory_of_more_pieces_than_can_be_handed_over_is_not_shared) {
  setenv("FAKE_CUDA_PIECES", "1", 1);
  std::byte* const block = *runtime->allocate(0, std::size_t{66} << 20);
  unsetenv("FAKE_CUDA_PIECES");
  EXPECT_TRUE(runtime->share(block, std::size_t{64} << 20).has_value());
  const auto all = runtime->share(block, std::size_t{66} << 20);
  EXPECT_EQ(all.error().code(), ErrorCode::unsupported);
  EXPECT_NE(all.error().message().find("more than 32 pieces"), std::string::npos) << all.error().message();
  runtime->free(0, block);
}

}  // namespace
}  // namespace fabring

// The program's memory, over an arena of shared memory and over none.

#include "runtime/memory/mapped_blocks.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <span>

#include "transports/shm/arena.hpp"

namespace fabring {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

bool all_are(std::span<const std::byte> bytes, std::byte value) {
  return std::ranges::all_of(bytes, [value](std::byte b) { return b == value; });
}

/// Is this true in a child of this process, which then ends?
template <typename What>
bool true_in_a_child(What what) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(what() ? 0 : 1);
  int ending = -1;
  return child > 0 && ::waitpid(child, &ending, 0) == child && ending == 0;
}

// As a data loader's worker does when it ends, with all that its parent has in static variables.
TEST(MappedBlocks, AForkedChildFreesNothingOfItsParents) {
  const auto arena = *shm::Arena::create(shm::page, mib);
  MappedBlocks blocks(std::make_shared<shm::MappedSource>(arena));
  auto block = *blocks.allocate(100'000);
  const std::span<std::byte> bytes(block->data(), block->size());
  std::ranges::fill(bytes, std::byte{1});
  EXPECT_TRUE(true_in_a_child([&] { return block.reset(), true; }));
  EXPECT_TRUE(all_are(bytes, std::byte{1}));
  EXPECT_TRUE(true_in_a_child([&] { return arena->release_mapped(block->data(), block->size()); }));
  EXPECT_TRUE(all_are(bytes, std::byte{1}));
  EXPECT_EQ(blocks.bytes(), 102'400u);
}

/// Ordinary memory, but it notes what is given back to it.
class NotingSource final : public MemorySource {
 public:
  std::byte* allocate(std::size_t bytes) override { return static_cast<std::byte*>(std::aligned_alloc(4096, bytes)); }
  bool release(std::byte* block, std::size_t) override {
    ++given_back_;
    std::free(block);
    return true;
  }
  int given_back() const { return given_back_; }

 private:
  int given_back_ = 0;
};

TEST(MappedBlocks, AForkedChildDoesNotAskItsParentsSource) {
  const auto source = std::make_shared<NotingSource>();
  MappedBlocks blocks(source);
  auto block = *blocks.allocate(100);
  EXPECT_TRUE(true_in_a_child([&] { return block.reset(), source->given_back() == 0; }));
  block.reset();
  EXPECT_EQ(source->given_back(), 1);
}

}  // namespace
}  // namespace fabring

// A hundred communicators at once: each is a table. They share connections and threads, and take little memory.

#include <gtest/gtest.h>
#include <malloc.h>

#include <array>
#include <filesystem>

#include "tests/support/thread_world.hpp"
#include "transports/tcp/tcp_transport.hpp"

namespace fabring::fixture {
namespace {

constexpr int ranks = 2;
constexpr std::size_t communicators = 100;

struct Held {
  std::size_t descriptors = 0, threads = 0, bytes = 0;
};

std::size_t entries(const char* folder) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& one : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

Held held_now() {
  const auto heap = mallinfo2();
  return {entries("/proc/self/fd"), entries("/proc/self/task"), heap.uordblks + heap.hblkhd};
}

void use(Communicator on) {
  for (const bool async : {false, true}) {
    int one = 1, sum = 0;
    const Operation operation = Operation::allreduce(&one, &sum, 1, DataType::int32, ReduceOp::sum);
    const Status status = async ? on.start(operation).wait() : on.run(operation);
    ASSERT_TRUE(status.ok()) << status.to_string();
    ASSERT_EQ(sum, on.size());
  }
}

/// What the process holds before the communicators, with them, all in use, and after.
std::array<Held, 3> held_by(ThreadWorld& world) {
  std::array<Held, 3> held;
  std::array<std::vector<Communicator>, ranks> made;
  world.run([](Rank, Communicator all) { use(all); });
  held[0] = held_now();
  world.run([&](Rank rank, Communicator all) {
    auto& own = made[static_cast<std::size_t>(rank)];
    for (std::size_t i = 0; i < communicators; ++i) {
      auto one = i % 2 == 0 ? all.duplicate() : all.split(static_cast<int>(i % 4) == 1 ? 0 : rank, 0);
      ASSERT_TRUE(one.has_value()) << one.error().to_string();
      use(*one);
      own.push_back(std::move(*one));
    }
    for (const Communicator& one : own) use(one);  // all of them are still what they were
  });
  held[1] = held_now();
  for (auto& own : made) own.clear();
  held[2] = held_now();
  return held;
}

void expect_cheap(ThreadWorld& world) {
  constexpr std::size_t most_of_one = std::size_t{32} << 10;  // with the plans that it has used
  const auto [before, with, after] = held_by(world);
  EXPECT_EQ(with.descriptors, before.descriptors) << "no connection of its own";
  EXPECT_EQ(with.threads, before.threads);
  EXPECT_EQ(after.descriptors, before.descriptors);
  if (with.bytes == 0) return;  // an allocator that does not tell, as with sanitizers
  const std::size_t each = (with.bytes - before.bytes) / (ranks * communicators);
  ::testing::Test::RecordProperty("bytes_of_one", static_cast<int>(each));
  EXPECT_LT(each, most_of_one);
  EXPECT_LT(after.bytes, before.bytes + (with.bytes - before.bytes) / 4) << "they give it back";
}

TEST(ManyCommunicators, in_shared_memory_are_cheap) {
  ThreadWorld world(ranks, {}, ThreadWorld::Over::shm);
  expect_cheap(world);
}

TEST(ManyCommunicators, through_sockets_are_cheap) {
  const auto transport = make_tcp_transport();
  EndpointOptions options;
  options.bind_address = "127.0.0.1";
  ThreadWorld world(ranks, {}, nullptr, *transport, options);
  expect_cheap(world);
}

}  // namespace
}  // namespace fabring::fixture

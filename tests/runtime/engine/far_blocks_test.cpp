// Blocks that lie more than 4 GiB from the start of their buffer: no offset is kept in 32 bits on any way. The buffers
// are address space of which only the blocks are ever touched (mapped memory has all its pages from the start, so that
// it has no such test); tools/large_counts.sh moves so many bytes in earnest, through mapped memory too.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>

#include "tests/support/thread_world.hpp"
#include "transports/tcp/tcp_transport.hpp"

namespace fabring::fixture {
namespace {

constexpr std::size_t far_off = (std::size_t{1} << 32) + (std::size_t{1} << 20);  // bytes
constexpr std::size_t far_room = far_off + (std::size_t{16} << 20);

/// Bytes that exist once they are written.
class FarMemory {
 public:
  FarMemory() {
    void* const made =
        ::mmap(nullptr, far_room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made != MAP_FAILED) data_ = static_cast<std::byte*>(made);
  }
  ~FarMemory() {
    if (data_ != nullptr) ::munmap(data_, far_room);
  }
  FarMemory(const FarMemory&) = delete;
  FarMemory& operator=(const FarMemory&) = delete;
  std::byte* data() const { return data_; }  // null: this host does not give so much

 private:
  std::byte* data_ = nullptr;
};

/// The first block lies near, the others far off with gaps, the last one first.
template <class T>
struct FarLayout {
  explicit FarLayout(std::vector<std::size_t> lengths) : counts(std::move(lengths)), offsets(counts.size(), 7) {
    std::size_t next = far_off / sizeof(T);
    for (std::size_t i = counts.size(); i-- > 1; next += counts[i] + 1001) offsets[i] = next;
  }
  Blocks blocks() const { return {counts, offsets}; }
  T* at(std::byte* buffer, Rank block) const { return reinterpret_cast<T*>(buffer) + offsets[std::size_t(block)]; }
  std::size_t count(Rank block) const { return counts[std::size_t(block)]; }
  /// Nothing lies where offsets of 32 bits would have led.
  bool left_alone(const std::byte* buffer) const {
    for (std::size_t i = 1; i < counts.size(); ++i) {
      const std::byte* const wrong = buffer + static_cast<std::uint32_t>(offsets[i] * sizeof(T));
      if (std::any_of(wrong, wrong + counts[i] * sizeof(T), [](std::byte each) { return each != std::byte{0}; }))
        return false;
    }
    return true;
  }
  std::vector<std::size_t> counts, offsets;
};

template <class T>
T value_of(Rank from, Rank to, std::size_t index) {
  return static_cast<T>(from * 37 + to * 11 + 1 + static_cast<int>(index % 101));
}

template <class T>
void put(T* to, std::size_t count, Rank from, Rank towards) {
  for (std::size_t i = 0; i < count; ++i) to[i] = value_of<T>(from, towards, i);
}

template <class T>
bool holds(const T* data, std::size_t count, Rank from, Rank to) {
  for (std::size_t i = 0; i < count; ++i)
    if (data[i] != value_of<T>(from, to, i)) return false;
  return true;
}

/// One rank's part of every v-variant; false: this host does not give so much memory.
template <class T>
bool exchange_far_blocks(Communicator all, DataType type) {
  const Rank self = all.rank(), ranks = all.size();
  FarMemory in, out;
  std::uint8_t have = in.data() != nullptr && out.data() != nullptr, all_have = 0;
  EXPECT_TRUE(all.allreduce(&have, &all_have, 1, DataType::uint8, ReduceOp::min).ok());
  if (all_have == 0) return false;
  const auto length = [](Rank from, Rank to) { return static_cast<std::size_t>(30'000 + 4001 * from + 500 * to); };
  std::vector<std::size_t> own, sent, received;
  for (Rank rank = 0; rank < ranks; ++rank) {
    own.push_back(length(rank, rank));
    sent.push_back(length(self, rank));
    received.push_back(length(rank, self));
  }
  const FarLayout<T> blocks(own), to(sent), from(received);
  const auto run = [&](const Operation& operation) {
    const Status done = all.run(operation);
    EXPECT_TRUE(done.ok()) << done.to_string();
  };
  const auto forget = [&](FarMemory& memory, const FarLayout<T>& layout) {
    for (Rank rank = 0; rank < ranks; ++rank) std::fill_n(layout.at(memory.data(), rank), layout.count(rank), T{0});
  };
  const auto gathered = [&](const char* what) {
    for (Rank rank = 0; rank < ranks; ++rank)
      EXPECT_TRUE(holds(blocks.at(out.data(), rank), blocks.count(rank), rank, 0)) << what << ", block " << rank;
    EXPECT_TRUE(blocks.left_alone(out.data())) << what;
  };
  std::vector<T> mine(blocks.count(self));

  put(mine.data(), mine.size(), self, 0);
  run(Operation::all_gather_v(mine.data(), out.data(), blocks.blocks(), type));
  gathered("all_gather_v");
  forget(out, blocks);
  put(blocks.at(out.data(), self), mine.size(), self, 0);
  run(Operation::all_gather_v(blocks.at(out.data(), self), out.data(), blocks.blocks(), type));
  gathered("all_gather_v in place");
  forget(out, blocks);
  run(Operation::gather_v(mine.data(), out.data(), blocks.blocks(), type, 1));
  if (self == 1) gathered("gather_v");
  forget(out, blocks);

  for (Rank rank = 0; rank < ranks; ++rank) put(blocks.at(in.data(), rank), blocks.count(rank), self, rank);
  run(Operation::scatter_v(in.data(), mine.data(), blocks.blocks(), type, 1));
  EXPECT_TRUE(holds(mine.data(), mine.size(), 1, self)) << "scatter_v";
  run(Operation::reduce_scatter_v(in.data(), mine.data(), blocks.blocks(), type, ReduceOp::max));
  EXPECT_TRUE(holds(mine.data(), mine.size(), ranks - 1, self)) << "reduce_scatter_v";  // the largest
  forget(in, blocks);

  for (Rank rank = 0; rank < ranks; ++rank) put(to.at(in.data(), rank), to.count(rank), self, rank);
  run(Operation::alltoall_v(in.data(), to.blocks(), out.data(), from.blocks(), type));
  for (Rank rank = 0; rank < ranks; ++rank)
    EXPECT_TRUE(holds(from.at(out.data(), rank), from.count(rank), rank, self)) << "alltoall_v, from " << rank;
  EXPECT_TRUE(from.left_alone(out.data())) << "alltoall_v";
  return true;
}

void expect_far_blocks(ThreadWorld& world) {
  std::vector<char> tried(static_cast<std::size_t>(world.size()));
  world.run([&](Rank rank, Communicator all) {
    tried[static_cast<std::size_t>(rank)] = exchange_far_blocks<std::uint8_t>(all, DataType::uint8) &&
                                            exchange_far_blocks<std::int64_t>(all, DataType::int64);
  });
  if (tried[0] == 0) GTEST_SKIP() << "this host does not give address space of 4 GiB";
}

class FarBlocks : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(By, FarBlocks, testing::Values("auto", "ring", "circulant"),
                         [](const auto& of) { return std::string(of.param); });

Config by(const char* algorithm) {
  Config config;
  config.algorithm = algorithm;
  return config;
}

TEST_P(FarBlocks, are_right_through_shared_memory) {
  ThreadWorld world(3, by(GetParam()), ThreadWorld::Over::shm);
  expect_far_blocks(world);
}

TEST_P(FarBlocks, are_right_over_a_network) {
  const auto transport = make_tcp_transport();
  EndpointOptions options;
  options.bind_address = "127.0.0.1";
  ThreadWorld world(3, by(GetParam()), nullptr, *transport, options);
  expect_far_blocks(world);
}

}  // namespace
}  // namespace fabring::fixture

// Memory that the host does not have, or that others take while it is being allocated, is an error that names who says
// so.

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <string>

#include "runtime/memory/mapped_blocks.hpp"
#include "transports/shm/arena.hpp"

namespace fabring {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::size_t in_mib = std::size_t{1} << 20;

/// A folder of the test's own with files that a kernel would have.
class MadeUpFiles {
 public:
  MadeUpFiles() : root_(std::filesystem::path(testing::TempDir()) / ("memory-" + std::to_string(::getpid()))) {}
  ~MadeUpFiles() { std::filesystem::remove_all(root_); }
  void write(const std::string& file, const std::string& text) {
    std::filesystem::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  /// Whoever reads it first finds `first`, and all after him `then`.
  std::future<void> write(const std::string& file, const std::string& first, const std::string& then) {
    const std::string path = root_ / file, next = file + ".next";
    write(next, then);
    EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
    return std::async(std::launch::async, [=, this] {
      std::ofstream written(path);  // as soon as somebody reads
      std::filesystem::rename(root_ / next, path);
      written << first;
    });
  }
  HostFiles files() const { return HostFiles(root_); }

 private:
  std::filesystem::path root_;
};

/// /proc/meminfo
std::string available(std::size_t of_mib) { return "MemAvailable: " + std::to_string(of_mib << 10) + " kB\n"; }

TEST(MappedLimits, WhatNoProcessCanHaveIsNotSaidToBeMissing) {
  const auto none = MappedBlocks(nullptr, MadeUpFiles().files()).allocate(SIZE_MAX);
  ASSERT_FALSE(none.has_value());
  EXPECT_THAT(none.error().message(), HasSubstr("more than a process can have"));
}

TEST(MappedLimits, WhatTheHostOrItsGroupDoesNotHaveIsRefusedAndWhoeverSaysSoNamed) {
  MadeUpFiles kernel;
  kernel.write("proc/meminfo", "MemTotal: 65536 kB\nMemAvailable:   32768 kB\n");
  MappedBlocks blocks(nullptr, kernel.files());
  EXPECT_TRUE(blocks.allocate(32 << 20).has_value());
  const auto beyond_host = blocks.allocate(33 << 20);
  ASSERT_FALSE(beyond_host.has_value());
  EXPECT_EQ(beyond_host.error().code(), ErrorCode::out_of_memory);
  EXPECT_THAT(beyond_host.error().message(),
              AllOf(HasSubstr("33 MiB"), HasSubstr("32 MiB"), HasSubstr("/proc/meminfo")));

  const std::string group = "sys/fs/cgroup/slice/job_7";
  kernel.write("proc/self/cgroup", "0::/slice/job_7\n");
  kernel.write(group + "/memory.max", std::to_string(20 << 20) + "\n");
  kernel.write(group + "/memory.current", std::to_string(15 << 20) + "\n");
  kernel.write(group + "/memory.stat", "inactive_file " + std::to_string(3 << 20) + "\n");
  EXPECT_TRUE(blocks.allocate(8 << 20).has_value());
  const auto beyond_group = blocks.allocate(9 << 20);
  ASSERT_FALSE(beyond_group.has_value());
  EXPECT_THAT(beyond_group.error().message(),
              AllOf(HasSubstr("9 MiB"), HasSubstr("8 MiB"), HasSubstr("/" + group + "/memory.max")));
}

// Ranks that allocate at the same time find the same memory free.
TEST(MappedLimits, AnAllocationEndsWhenOthersHaveTakenWhatItStillNeeds) {
  MadeUpFiles kernel;
  const auto arena = *shm::Arena::create(shm::page, 64 * in_mib, {.step = 4 * in_mib});
  MappedBlocks blocks(std::make_shared<shm::MappedSource>(arena), kernel.files());
  {
    const auto others = kernel.write("proc/meminfo", available(64), available(20));
    const auto block = blocks.allocate(32 * in_mib);
    ASSERT_FALSE(block.has_value());
    EXPECT_EQ(block.error().code(), ErrorCode::out_of_memory);
    EXPECT_THAT(block.error().message(),
                AllOf(HasSubstr("32 MiB"), HasSubstr("after 4 MiB"), HasSubstr("20 MiB"), HasSubstr("/proc/meminfo")));
  }
  EXPECT_EQ(blocks.bytes(), 0u);
  struct stat about {};
  ASSERT_EQ(::fstat(arena->memory().memfd(), &about), 0);
  EXPECT_LE(about.st_blocks * 512, 64 << 10) << "what was made of it is the machine's again";
  kernel.write("proc/meminfo", available(64));
  EXPECT_TRUE(blocks.allocate(64 * in_mib).has_value()) << "and all addresses are free";
}

TEST(MappedLimits, SoDoesOneOfOrdinaryMemory) {
  MadeUpFiles kernel;
  MappedBlocks blocks(nullptr, kernel.files());
  const auto others = kernel.write("proc/meminfo", available(2048), available(100));
  const auto block = blocks.allocate(1024 * in_mib);
  ASSERT_FALSE(block.has_value());
  EXPECT_EQ(block.error().code(), ErrorCode::out_of_memory);
  EXPECT_THAT(block.error().message(),
              AllOf(HasSubstr("1 GiB"), HasSubstr("after 256 MiB"), HasSubstr("100 MiB"), HasSubstr("/proc/meminfo")));
  EXPECT_EQ(blocks.bytes(), 0u);
}

}  // namespace
}  // namespace fabring

#include "topology/cpus.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "topology/host_identity.hpp"

namespace fabring {
namespace {

using testing::ElementsAre;

TEST(Cpus, ParsesTheQuotaOfAControlGroup) {
  EXPECT_EQ(parse_cpu_max("200000 100000\n"), 2.0);
  EXPECT_EQ(parse_cpu_max("150000 100000"), 1.5);
  for (const char* text : {"max 100000", "", "200000", "-5 100000", "5 0", "x y"})
    EXPECT_FALSE(parse_cpu_max(text)) << text;
}

TEST(Cpus, ParsesCpuLists) {
  EXPECT_THAT(parse_cpu_list("0-3,8\n"), ElementsAre(0, 1, 2, 3, 8));
  EXPECT_THAT(parse_cpu_list("5"), ElementsAre(5));
  for (const char* text : {"0-3,8", "5", "", "0,2,4-5"}) EXPECT_EQ(show_cpu_list(parse_cpu_list(text)), text);
  for (const char* text : {"", "a", "3-1", "0-999999999", "-1", "0-65536", "4,0-3", "0-3,3", "0-65535,0-65535"})
    EXPECT_TRUE(parse_cpu_list(text).empty()) << text;
}

class Quota : public testing::Test {
 protected:
  Quota() : root_(std::filesystem::path(testing::TempDir()) / ("cgroups-" + std::to_string(::getpid()))) {}
  ~Quota() override { std::filesystem::remove_all(root_); }
  void write(const std::filesystem::path& file, const std::string& text) {
    std::filesystem::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  std::filesystem::path root_;
};

TEST_F(Quota, OfTheTightestGroupOnTheWayUpCounts) {
  write("a/b/cpu.max", "max 100000");
  write("a/cpu.max", "300000 100000");
  write("cpu.max", "800000 100000");
  EXPECT_EQ(cpu_quota("0::/a/b\n", root_), 3.0);
  EXPECT_EQ(cpu_quota("0::/\n", root_), 8.0);
}

TEST_F(Quota, OfAContainerIsAtTheRootOfItsMount) {
  write("cpu.max", "200000 100000");
  EXPECT_EQ(cpu_quota("0::/host/path/that/is/not/here\n", root_), 2.0);
  EXPECT_EQ(cpu_quota("0::/../../outside\n", root_), 2.0);
}

TEST_F(Quota, OfVersionOneIsRead) {
  write("cpu/x/cpu.cfs_quota_us", "50000\n");
  write("cpu/x/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpu_quota("5:memory:/x\n3:cpu,cpuacct:/x\n", root_), 0.5);
  write("cpu/x/cpu.cfs_quota_us", "-1\n");
  EXPECT_FALSE(cpu_quota("3:cpu,cpuacct:/x\n", root_));
}

TEST_F(Quota, IsAbsentWhenNothingLimits) {
  EXPECT_FALSE(cpu_quota("0::/\n", root_));
  EXPECT_FALSE(cpu_quota("", root_));
  EXPECT_FALSE(cpu_quota("garbage\n:\n", root_));
}

TEST(Cpus, ThisProcessMayUseSome) {
  EXPECT_GE(allowed_cpus(), 1);
  EXPECT_LE(allowed_cpus(), static_cast<int>(affinity_cpus().size()));
  EXPECT_FALSE(numa_nodes().empty());
}

TEST(HostIdentity, IsTheSameEachTimeItIsAsked) {
  EXPECT_EQ(host_fingerprint(), host_fingerprint());
  EXPECT_NE(host_fingerprint().find("/net:"), std::string::npos);
  EXPECT_EQ(kernel_of("boot/net:1.2"), "boot");
  EXPECT_FALSE(host_name().empty());
}

}  // namespace
}  // namespace fabring

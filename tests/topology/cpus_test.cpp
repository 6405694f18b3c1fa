#include "topology/cpus.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "topology/control_groups.hpp"
#include "topology/cpu_quota.hpp"
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

class Caches : public testing::Test {
 protected:
  Caches() : root_(std::filesystem::path(testing::TempDir()) / ("caches-" + std::to_string(::getpid()))) {}
  ~Caches() override { std::filesystem::remove_all(root_); }
  void add(int index, const std::string& level, const std::string& size, const std::string& shared) {
    const auto folder = root_ / "cpu3/cache" / ("index" + std::to_string(index));
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "level") << level << '\n';
    std::ofstream(folder / "size") << size << '\n';
    std::ofstream(folder / "shared_cpu_list") << shared << '\n';
  }
  std::filesystem::path root_;
};

TEST_F(Caches, TheLastIsTheOneOfTheHighestLevel) {
  EXPECT_EQ(last_cache(3, root_).bytes, 0u) << "nothing is known";
  add(0, "1", "32K", "3");
  add(1, "3", "32768K", "0-7");
  add(2, "2", "512K", "3");
  EXPECT_EQ(last_cache(3, root_).bytes, std::size_t{32} << 20);
  EXPECT_EQ(last_cache(3, root_).cpus, 8);
  EXPECT_EQ(last_cache(4, root_).bytes, 0u) << "of another processor";
}

TEST_F(Caches, NonsenseIsNothing) {
  add(0, "3", "-1K", "0-3");
  EXPECT_EQ(last_cache(3, root_).bytes, 0u);
  add(0, "3", "99999999999999999999K", "0-3");
  EXPECT_EQ(last_cache(3, root_).bytes, 0u);
  add(0, "x", "512K", "0-3");
  EXPECT_EQ(last_cache(3, root_).bytes, 0u);
  add(0, "2", "512K", "nobody");
  EXPECT_EQ(last_cache(3, root_).bytes, 512u << 10);
  EXPECT_EQ(last_cache(3, root_).cpus, 1);
}

TEST(Cache, IsSharedByTheRanksBesideIt) {
  constexpr std::size_t mib = 1 << 20;
  EXPECT_EQ(share_of_cache({32 * mib, 2}, 2, 2), 16 * mib);
  EXPECT_EQ(share_of_cache({32 * mib, 2}, 4, 2), 8 * mib);
  EXPECT_EQ(share_of_cache({32 * mib, 8}, 8, 64), 32 * mib) << "they are spread over eight of them";
  EXPECT_EQ(share_of_cache({32 * mib, 8}, 64, 64), 4 * mib);
  EXPECT_EQ(share_of_cache({32 * mib, 8}, 1, 2), 32 * mib);
  EXPECT_EQ(share_of_cache({}, 4, 2), 0u);
}

class Quota : public testing::Test {
 protected:
  Quota() : root_(std::filesystem::path(testing::TempDir()) / ("cgroups-" + std::to_string(::getpid()))) {}
  ~Quota() override { std::filesystem::remove_all(root_); }
  void write(const std::filesystem::path& file, const std::string& text) {
    std::filesystem::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  std::optional<double> least(const std::string& groups) const { return tightest(cpu_quotas(groups, root_)); }
  std::filesystem::path root_;
};

TEST_F(Quota, OfEachGroupOnTheWayUpIsNamedAlikeByWhateverPath) {
  write("a/b/cpu.max", "150000 100000");
  write("a/cpu.max", "max 100000");
  write("cpu.max", "800000 100000");
  write("c/cpu.max", "150000 100000");
  const auto seen = cpu_quotas("0::/a/b\n", root_);
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].millicpus, 1500u);
  EXPECT_EQ(seen[1].millicpus, 8000u);
  EXPECT_THAT(cpu_quotas("0::/\n", root_ / "a/b"), ElementsAre(seen[0])) << "from inside its container";
  EXPECT_THAT(cpu_quotas("0::/host/path/of/another\n", root_ / "c"), ElementsAre(testing::Ne(seen[0])));
  write("c/cpu.max", "1 1000000");
  EXPECT_EQ(cpu_quotas("0::/c\n", root_)[0].millicpus, 1u);
}

TEST_F(Quota, OfTheTightestGroupOnTheWayUpCounts) {
  write("a/b/cpu.max", "max 100000");
  write("a/cpu.max", "300000 100000");
  write("cpu.max", "800000 100000");
  EXPECT_EQ(least("0::/a/b\n"), 3.0);
  EXPECT_EQ(least("0::/\n"), 8.0);
}

TEST_F(Quota, OfAContainerIsAtTheRootOfItsMount) {
  write("cpu.max", "200000 100000");
  EXPECT_EQ(least("0::/host/path/that/is/not/here\n"), 2.0);
  EXPECT_EQ(least("0::/../../outside\n"), 2.0);
}

TEST_F(Quota, OfVersionOneIsRead) {
  write("cpu/x/cpu.cfs_quota_us", "50000\n");
  write("cpu/x/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(least("5:memory:/x\n3:cpu,cpuacct:/x\n"), 0.5);
  write("cpu/x/cpu.cfs_quota_us", "-1\n");
  EXPECT_FALSE(least("3:cpu,cpuacct:/x\n"));
}

TEST(ControlGroups, AreTheOwnAndThoseAroundIt) {
  const auto folders = [](std::string_view text, std::string_view controller) {
    std::string found;
    for (const ControlGroup& group : control_groups(text, controller))
      found += (found.empty() ? "" : " ") + std::string(group.v2 ? "2:" : "1:") + group.folder.string();
    return found;
  };
  EXPECT_EQ(folders("0::/a/b\n", "memory"), "2:a/b 2:a 2:");
  EXPECT_EQ(folders("0::/", "memory"), "2:");
  EXPECT_EQ(folders("0::/../outside\n", "memory"), "2:");
  EXPECT_EQ(folders("3:cpu,cpuacct:/c\n4:memory:/m\n1:name=memory:/n\n", "memory"), "1:memory/m 1:memory");
  EXPECT_EQ(folders("::\n:\n", "memory"), "2:");
  EXPECT_EQ(folders("", "memory"), "");
}

TEST_F(Quota, IsAbsentWhenNothingLimits) {
  EXPECT_FALSE(least("0::/\n"));
  EXPECT_FALSE(least(""));
  EXPECT_FALSE(least("garbage\n:\n"));
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

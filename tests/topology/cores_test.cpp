#include "topology/cores.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace fabring {
namespace {

using testing::ElementsAre;

class Cores : public testing::Test {
 protected:
  Cores() : root_(std::filesystem::path(testing::TempDir()) / ("cores-" + std::to_string(::getpid()))) {}
  ~Cores() override { std::filesystem::remove_all(root_); }
  void add(int cpu, int package, const std::string& threads) {
    const auto folder = root_ / "sys/devices/system/cpu" / ("cpu" + std::to_string(cpu)) / "topology";
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "physical_package_id") << package << '\n';
    std::ofstream(folder / "thread_siblings_list") << threads << '\n';
  }
  std::filesystem::path root_;
};

TEST_F(Cores, SecondThreadsBelongToTheirCores) {
  for (int cpu = 0; cpu < 8; ++cpu) add(cpu, cpu % 4 / 2, std::to_string(cpu % 4) + "," + std::to_string(cpu % 4 + 4));
  const HostFiles files(root_);
  EXPECT_THAT(cores_of({0, 1, 2, 3, 4, 5, 6, 7}, {{0, 1, 4, 5}, {2, 3, 6, 7}}, files),
              ElementsAre(ElementsAre(0, 4), ElementsAre(1, 5), ElementsAre(2, 6), ElementsAre(3, 7)));
  EXPECT_THAT(cores_of({2, 4, 6}, {}, files), ElementsAre(ElementsAre(4), ElementsAre(2, 6))) << "of those given";
}

TEST_F(Cores, PackagesThatAreNumberedInTurnAreKeptApart) {
  for (int cpu = 0; cpu < 4; ++cpu) add(cpu, cpu % 2, std::to_string(cpu));
  EXPECT_THAT(cores_of({0, 1, 2, 3}, {{0, 1, 2, 3}}, HostFiles(root_)),
              ElementsAre(ElementsAre(0), ElementsAre(2), ElementsAre(1), ElementsAre(3)));
}

TEST_F(Cores, NodesOfAPackageAreKeptApart) {
  for (int cpu = 0; cpu < 4; ++cpu) add(cpu, 0, std::to_string(cpu));
  EXPECT_THAT(cores_of({0, 1, 2, 3}, {{0, 3}, {1, 2}}, HostFiles(root_)),
              ElementsAre(ElementsAre(0), ElementsAre(3), ElementsAre(1), ElementsAre(2)));
}

TEST_F(Cores, WithoutAnythingToldEveryProcessorIsACore) {
  EXPECT_THAT(cores_of({1, 2, 3}, {}, HostFiles(root_)), ElementsAre(ElementsAre(1), ElementsAre(2), ElementsAre(3)));
}

}  // namespace
}  // namespace fabring

// What EFA is told about forks before libfabric is first asked, on a made-up /sys.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/transports/fabric/fabric_world.hpp"
#include "tests/transports/fabric/made_up_world.hpp"
#include "transports/fabric/fork_safety.hpp"

namespace fabring {
namespace {

class ForkSafety : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / ("infiniband-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    fabric::infiniband_folder = folder_;
    for (const char* name : {"FI_EFA_FORK_SAFE", "FI_EFA_USE_HUGE_PAGE"}) ::unsetenv(name);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void add_card(const std::string& name, const std::string& vendor) {
    std::filesystem::create_directories(folder_ / name / "device");
    std::ofstream(folder_ / name / "device" / "vendor") << vendor << '\n';
  }
  static std::string value(const char* name) {
    const char* const found = std::getenv(name);
    return found ? found : "unset";
  }
  static std::string both() { return value("FI_EFA_FORK_SAFE") + " " + value("FI_EFA_USE_HUGE_PAGE"); }

  std::filesystem::path folder_;
};

TEST_F(ForkSafety, BesideAnEfaCardForksAreAskedForAndHugePagesAreNot) {
  add_card("mlx5_0", "0x15b3");
  add_card("rdmap16s27", "0x1d0f");
  fabric::keep_forks_safe();
  EXPECT_EQ(both(), "1 0");
}

TEST_F(ForkSafety, WithoutOneNothingIsSet) {
  fabric::keep_forks_safe();
  add_card("mlx5_0", "0x15b3");
  fabric::keep_forks_safe();
  fabric::infiniband_folder = folder_ / "nosuch";
  fabric::keep_forks_safe();
  EXPECT_EQ(both(), "unset unset");
}

TEST_F(ForkSafety, WhatIsSetStays) {
  add_card("rdmap16s27", "0x1d0f");
  ::setenv("FI_EFA_FORK_SAFE", "0", 1);
  ::setenv("FI_EFA_USE_HUGE_PAGE", "Off", 1);
  fabric::keep_forks_safe();
  EXPECT_EQ(both(), "0 Off");
  ::unsetenv("FI_EFA_FORK_SAFE");
  fabric::keep_forks_safe();
  EXPECT_EQ(both(), "1 Off");
}

// EFA ends a process that has both.
TEST_F(ForkSafety, WhoWantsHugePagesIsNotGivenTheOther) {
  add_card("rdmap16s27", "0x1d0f");
  ::setenv("FI_EFA_USE_HUGE_PAGE", "1", 1);
  fabric::keep_forks_safe();
  EXPECT_EQ(both(), "unset 1");
}

// In a process of its own: libfabric is first asked once.
TEST_F(ForkSafety, BothAreSetWhenLibfabricIsFirstAsked) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  add_card("rdmap16s27", "0x1d0f");
  const auto ask = [] {
    made_up::begin();
    (void)open_fabric(fabric_options(0, 1, "made_up"));
    const made_up::Control& control = made_up::control();
    std::_Exit(control.asked && control.fork_safe == "1" && control.huge_pages == "0" ? 0 : 1);
  };
  EXPECT_EXIT(ask(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace fabring

#include "runtime/status/status_door.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include "runtime/status/status_wire.hpp"
#include "tests/support/closed_files.hpp"

namespace fabring {
namespace {

void close_and_end() {
  auto door = StatusDoor::open(status_name(static_cast<std::uint64_t>(::getpid()), 0),
                               [](bool) { return std::vector<RankNews>(); });
  ASSERT_TRUE(door) << door.error().message();
  tests::close_all_files();
  door->reset();
}

TEST(StatusDoor, EndsAlsoWhereTheProgramHasClosedItsDescriptors) {
  EXPECT_EXIT((close_and_end(), ::_exit(HasFatalFailure() ? 1 : 0)), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace fabring

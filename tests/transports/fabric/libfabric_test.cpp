// Libraries that are no libfabric of use.

#include "transports/fabric/libfabric.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace fabring {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string why_not(const char* file) {
  const auto opened = fabric::open_libfabric(file);
  EXPECT_EQ(opened.error().code(), ErrorCode::unavailable);
  return opened.error().message();
}

TEST(Libfabric, AnOlderOneThanThatOfTheBuildIsRefusedAsThat) {
  EXPECT_THAT(why_not(OLD_LIBFABRIC), AllOf(HasSubstr(OLD_LIBFABRIC), HasSubstr("fi_getinfo, version FABRIC_"),
                                            HasSubstr("older than the one Fabring was built with")));
}

TEST(Libfabric, OneThatIsNotThereOrAnotherLibraryIsRefusedWithARemedy) {
  EXPECT_THAT(why_not("/nowhere/libfabric.so.1"),
              AllOf(HasSubstr("/nowhere/libfabric.so.1"), HasSubstr("Debian: libfabric1")));
  EXPECT_THAT(why_not("libc.so.6"), HasSubstr("it is no libfabric"));
}

}  // namespace
}  // namespace fabring

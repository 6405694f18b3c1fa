// The build without libfabric.

#include <gtest/gtest.h>

#include "transports/fabric/fabric_transport.hpp"

namespace fabring {
namespace {

TEST(FabricAbsent, TheFactoryIsThereAndSaysWhyItCannotRun) {
  const auto answer = make_fabric_transport()->probe({});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code(), ErrorCode::unsupported);
  EXPECT_NE(answer.error().message().find("again with FABRING_WITH_FABRIC=ON"), std::string::npos);
  EXPECT_FALSE(make_fabric_transport()->open({}));
}

}  // namespace
}  // namespace fabring

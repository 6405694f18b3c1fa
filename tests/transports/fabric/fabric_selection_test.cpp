// Which provider is chosen, and what is said when none fits.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "tests/transports/fabric/fabric_world.hpp"

namespace fabring {
namespace {

Result<std::string> probe(const std::string& provider, const std::string& address = "127.0.0.1") {
  return make_fabric_transport()->probe(fabric_options(0, 2, provider, address));
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(FabricSelection, AutoTakesNativeTcpByItsProtocolAndSaysWhyNotEfa) {
  const auto answer = probe("auto");
  ASSERT_TRUE(answer) << answer.error().to_string();
  EXPECT_TRUE(contains(*answer, "protocol XNET")) << *answer;
  EXPECT_FALSE(contains(*answer, "ofi_rxm")) << *answer;
  EXPECT_TRUE(contains(*answer, "not EFA: no EFA device found")) << *answer;
  EXPECT_TRUE(contains(*answer, "libfabric ")) << *answer;
  EXPECT_TRUE(contains(*answer, "domain lo")) << *answer;
}

TEST(FabricSelection, TcpMeansTheNativeOneWhateverItsNameIs) {
  const auto answer = probe("tcp");
  ASSERT_TRUE(answer) << answer.error().to_string();
  EXPECT_TRUE(contains(*answer, "protocol XNET")) << *answer;
}

TEST(FabricSelection, RxmIsTakenWhenItIsAskedFor) {
  const auto answer = probe("rxm");
  ASSERT_TRUE(answer) << answer.error().to_string();
  EXPECT_TRUE(contains(*answer, "provider tcp;ofi_rxm")) << *answer;
}

TEST(FabricSelection, AProviderCanBeNamedExactly) {
  const auto answer = probe("tcp;ofi_rxm");
  ASSERT_TRUE(answer) << answer.error().to_string();
  EXPECT_TRUE(contains(*answer, "provider tcp;ofi_rxm")) << *answer;
}

TEST(FabricSelection, Ipv6IsBoundWhenTheAddressIsOne) {
  const auto answer = probe("auto", "::1");
  ASSERT_TRUE(answer) << answer.error().to_string();
  EXPECT_TRUE(contains(*answer, "::1")) << *answer;
}

TEST(FabricSelection, AProviderThatDoesNotExistIsAnErrorThatListsWhatIsHere) {
  const auto answer = probe("warp_drive");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code(), ErrorCode::unavailable);
  EXPECT_TRUE(contains(answer.error().message(), "\"warp_drive\"")) << answer.error().message();
  EXPECT_TRUE(contains(answer.error().message(), "tcp;ofi_rxm")) << answer.error().message();
  EXPECT_TRUE(contains(answer.error().message(), "FABRING_PROVIDER")) << answer.error().message();
}

TEST(FabricSelection, EfaWithoutADeviceIsAnErrorThatSaysSo) {
  const auto answer = probe("efa");
  if (answer) GTEST_SKIP() << "this host has an EFA device";
  EXPECT_EQ(answer.error().code(), ErrorCode::unavailable);
  EXPECT_TRUE(contains(answer.error().message(), "no EFA device found")) << answer.error().message();
}

TEST(FabricSelection, AnAddressThatIsNoneIsRefused) {
  const auto answer = probe("auto", "localhost");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code(), ErrorCode::invalid_argument);
  EXPECT_TRUE(contains(answer.error().message(), "\"localhost\"")) << answer.error().message();
}

TEST(FabricSelection, AnAddressOfAnotherHostCannotBeOpened) {
  const auto endpoint = make_fabric_transport()->open(fabric_options(0, 2, "tcp", "192.0.2.77"));
  ASSERT_FALSE(endpoint);
  EXPECT_EQ(endpoint.error().code(), ErrorCode::unavailable) << endpoint.error().to_string();
  EXPECT_TRUE(contains(endpoint.error().message(), "192.0.2.77")) << endpoint.error().message();
}

TEST(FabricSelection, AVariableOfLibfabricThatHidesEverythingIsNamed) {
  // libfabric reads it once per process: so this runs in a new one, not in a fork of this.
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        setenv("FI_PROVIDER", "shm", 1);
        const auto answer = probe("auto");
        if (answer) _exit(1);
        std::fputs(answer.error().message().c_str(), stderr);
        _exit(0);
      },
      testing::ExitedWithCode(0), "FI_PROVIDER=shm");
}

TEST(FabricAddress, BytesThatAreNoneAreRefused) {
  auto endpoint = open_fabric(fabric_options(0, 3));
  auto other = open_fabric(fabric_options(1, 3));
  const std::string good = other->address();
  std::string long_name = good;
  long_name[12] = static_cast<char>(0xff);
  std::string no_port = good;
  no_port[15] = no_port[16] = '\0';
  std::string wrong_family = good;
  wrong_family[13] = 10;  // AF_INET6 in the space of an IPv4 address
  for (const std::string& bad :
       {std::string(), std::string("x"), std::string(256, '\0'), good.substr(0, good.size() - 1), good + "x", long_name,
        std::string("tcp 127.0.0.1:1234"), no_port, wrong_family}) {
    const Status status = endpoint->add_peer(1, bad);
    EXPECT_EQ(status.code(), ErrorCode::invalid_argument) << bad.size() << " bytes";
  }
  EXPECT_EQ(endpoint->add_peer(0, good).code(), ErrorCode::invalid_argument) << "itself";
  EXPECT_EQ(endpoint->add_peer(3, good).code(), ErrorCode::invalid_argument) << "outside the world";
  EXPECT_EQ(endpoint->add_peer(-1, good).code(), ErrorCode::invalid_argument);
  EXPECT_TRUE(endpoint->add_peer(1, good).ok());
  EXPECT_EQ(endpoint->add_peer(1, good).code(), ErrorCode::invalid_argument) << "twice";
}

TEST(FabricAddress, OfAnotherProtocolIsAMismatchThatNamesTheRank) {
  auto endpoint = open_fabric(fabric_options(0, 2, "tcp"));
  auto other = open_fabric(fabric_options(1, 2, "rxm"));
  const Status status = endpoint->add_peer(1, other->address());
  EXPECT_EQ(status.code(), ErrorCode::mismatch);
  EXPECT_TRUE(contains(status.message(), "rank 1")) << status.message();
  EXPECT_TRUE(contains(status.message(), "FABRING_PROVIDER")) << status.message();
}

}  // namespace
}  // namespace fabring

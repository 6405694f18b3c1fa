#include "topology/interfaces.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "tests/support/refused_sockets.hpp"

namespace fabring {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

InterfaceAddress v4(const char* interface, const char* address, bool up = true) {
  return {interface, address, 24, false, up, std::string_view(interface) == "lo"};
}
InterfaceAddress v6(const char* interface, const char* address) {
  return {interface, address, 64, true, true, std::string_view(interface) == "lo"};
}

const std::vector<InterfaceAddress> host{
    v4("lo", "127.0.0.1"),          v4("docker0", "172.17.0.1"),
    v4("veth12ab", "169.254.3.4"),  v4("br-0a1b2c3d4e5f", "172.18.0.1"),
    v4("down0", "10.9.0.1", false), v4("eth0", "10.0.0.5"),
    v4("ib0", "192.168.5.5"),       v6("eth0", "fe80::1"),
    v6("eth0", "fd00::5"),          {"eth0", "10.0.1.5", 24, false, true, false, "eth0:data"}};

struct Case {
  const char* what;
  InterfaceRequest request;
  const char* address;
};

TEST(Interfaces, ThatASandboxDoesNotListNameTheFamilyToAllow) {
  const auto list = [](unsigned error) {
    tests::refuse_sockets(AF_NETLINK, error);
    const auto found = interface_addresses();
    EXPECT_THAT(found ? "found" : found.error().message(), HasSubstr("allow AF_NETLINK"));
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  };
  for (const unsigned error : {EPERM, EAFNOSUPPORT}) EXPECT_EXIT(list(error), testing::ExitedWithCode(0), "");
}

TEST(ChooseInterface, TakesWhatOtherHostsCanReach) {
  const Case cases[] = {
      {"first usable", {"", false, ""}, "10.0.0.5"},
      {"the way to the master", {"", false, "192.168.5.5"}, "192.168.5.5"},
      {"the way to the master over IPv6", {"", false, "fd00::5"}, "fd00::5"},
      {"loopback when that is enough", {"", true, ""}, "127.0.0.1"},
      {"loopback when that is enough, though there is a route", {"", true, "10.0.0.5"}, "127.0.0.1"},
      {"the allowed one", {"ib0", false, ""}, "192.168.5.5"},
      {"the allowed one, off the way to the master", {"ib0", false, "10.0.0.5"}, "192.168.5.5"},
      {"several allowed: the way to the master first", {"ib0,eth0", false, "10.0.0.5"}, "10.0.0.5"},
      {"a beginning", {"ib*", false, ""}, "192.168.5.5"},
      {"a network", {"192.168.0.0/16", false, ""}, "192.168.5.5"},
      {"an IPv6 network", {"fd00::/8", false, ""}, "fd00::5"},
      {"an address", {"192.168.5.5", false, ""}, "192.168.5.5"},
      {"an address by its label", {"eth0:data", false, ""}, "10.0.1.5"},
      {"all but an address by its label", {"^eth0:data,ib0", false, "10.0.1.5"}, "10.0.0.5"},
      {"a bridge if it is asked for", {"docker0", false, ""}, "172.17.0.1"},
      {"a bridge if the master is behind it", {"", false, "172.18.0.1"}, "172.18.0.1"},
      {"all but some", {"^eth0", false, ""}, "192.168.5.5"},
      {"all but loopback on one host", {"^lo", true, ""}, "10.0.0.5"},
      {"all but a network", {"^10.0.0.0/8,fd00::/8", false, ""}, "192.168.5.5"},
  };
  for (const Case& c : cases) {
    auto choice = choose_interface(host, c.request);
    ASSERT_TRUE(choice) << c.what << ": " << choice.error().message();
    EXPECT_EQ(choice->chosen.address, c.address) << c.what;
    EXPECT_THAT(choice->reason, HasSubstr(c.address)) << c.what;
  }
}

TEST(ChooseInterface, PrefersWhatIsNearWhereReachIsKnown) {
  const Case cases[] = {
      {"near, of those the user named", {"eth0,ib0", false, "10.0.0.5", {"ib0"}}, "192.168.5.5"},
      {"the nearest of those named", {"eth0,ib0", false, "", {"ib0", "eth0"}}, "192.168.5.5"},
      {"not named: the way to the master", {"", false, "10.0.0.5", {"ib0"}}, "10.0.0.5"},
      {"no master known: the nearest", {"", false, "", {"ib0"}}, "192.168.5.5"},
      {"named, but of another family than the master", {"eth0,ib0", false, "fd00::5", {"ib0"}}, "fd00::5"},
      {"IPv4 before near IPv6", {"", false, "", {"eth0"}}, "10.0.0.5"},
      {"near what is denied", {"^ib0", false, "", {"ib0"}}, "10.0.0.5"},
      {"loopback on one host", {"", true, "", {"ib0"}}, "127.0.0.1"},
      {"near what is not here", {"", false, "", {"mlx5"}}, "10.0.0.5"},
  };
  for (const Case& c : cases) {
    auto choice = choose_interface(host, c.request);
    ASSERT_TRUE(choice) << c.what << ": " << choice.error().message();
    EXPECT_EQ(choice->chosen.address, c.address) << c.what;
  }
  EXPECT_THAT(choose_interface(host, {"eth0,ib0", false, "10.0.0.5", {"ib0"}})->reason, HasSubstr("near this rank"));
}

TEST(ChooseInterface, SaysWhyTheOthersWereTurnedDown) {
  auto choice = choose_interface(host, {});
  ASSERT_TRUE(choice);
  EXPECT_THAT(choice->rejected, Contains(AllOf(HasSubstr("docker0 172.17.0.1"), HasSubstr("container"))));
  EXPECT_THAT(choice->rejected, Contains(AllOf(HasSubstr("veth12ab"), HasSubstr("link-local"))));
  EXPECT_THAT(choice->rejected, Contains(AllOf(HasSubstr("lo 127.0.0.1"), HasSubstr("other hosts"))));
  EXPECT_THAT(choice->rejected, Contains(AllOf(HasSubstr("down0"), HasSubstr("down"))));
  EXPECT_THAT(choice->rejected, Contains(AllOf(HasSubstr("fe80::1"), HasSubstr("link-local"))));
}

TEST(ChooseInterface, ListsWhatExistsWhenNothingIsLeft) {
  auto choice = choose_interface(host, {"down0", false, ""});
  ASSERT_FALSE(choice);
  EXPECT_EQ(choice.error().code(), ErrorCode::unavailable);
  EXPECT_THAT(choice.error().message(),
              AllOf(HasSubstr("eth0 10.0.0.5, "), HasSubstr(": not allowed by FABRING_INTERFACE=down0; ")));
  EXPECT_THAT(choice.error().message(), HasSubstr("down0 10.9.0.1: down"));
  EXPECT_THAT(choose_interface({}, {}).error().message(), HasSubstr("this host has none"));
  EXPECT_FALSE(choose_interface({v4("lo", "127.0.0.1")}, {}));
}

TEST(ChooseInterface, AnInterfaceThatDoesNotExistIsNamedWithThoseThatDo) {
  const std::pair<const char*, const char*> cases[] = {
      {"eth9", "FABRING_INTERFACE=eth9: this host has no interface eth9; did you mean 'eth0'? It has lo, docker0,"},
      {"nosuch0", "no interface nosuch0; it has lo, docker0, veth12ab, br-0a1b2c3d4e5f, down0, eth0, ib0"},
      {"mlx*,10.1.0.0/16", "this host has no interface mlx*, no address in 10.1.0.0/16; it has lo 127.0.0.1, "},
      {"10.1.0.0/16", "this host has no address in 10.1.0.0/16; it has lo 127.0.0.1, "},
  };
  for (const auto& [filter, expected] : cases) {
    auto choice = choose_interface(host, {filter, false, ""});
    ASSERT_FALSE(choice) << filter;
    EXPECT_EQ(choice.error().code(), ErrorCode::unavailable);
    EXPECT_THAT(choice.error().message(), HasSubstr(expected));
  }
  EXPECT_TRUE(choose_interface(host, {"nosuch0,eth0", false, ""}));  // one list for hosts that differ
  EXPECT_TRUE(choose_interface(host, {"^nosuch0", false, ""}));
}

// Docker calls its bridges by 12 hex digits; others are a host's own, with its card below.
TEST(ChooseInterface, ABridgeIsOfContainersOnlyIfDockerNamedIt) {
  for (const char* own : {"br-ex", "br-eno1", "br-mgmt", "br-0a1b2c3d4e5", "br-0a1b2c3d4e5fa", "br-0a1b2c3d4e5g"}) {
    const auto choice = choose_interface({v4("br-0a1b2c3d4e5f", "172.18.0.1"), v4(own, "10.0.0.5")}, {});
    ASSERT_TRUE(choice) << own;
    EXPECT_EQ(choice->chosen.interface, own);
    EXPECT_EQ(usable_interfaces({v4(own, "10.0.0.5")}, {}).size(), 1u) << own;
    EXPECT_THAT(choice->rejected, ElementsAre(HasSubstr("br-0a1b2c3d4e5f 172.18.0.1: made by a container system")));
  }
}

TEST(UnmatchedItems, AreThoseOfAListThatNameNothingHere) {
  const std::vector<std::string> cards{"lo", "eth0", "eth5", "rdmap16s27"};  // eth5 has no address
  const std::pair<const char*, std::vector<std::string>> cases[] = {
      {"", {}},
      {"eth0,ib*,10.0.0.0/8,fd00::5", {}},
      {"lo,eth7", {"eth7: no such interface here"}},
      {"eth0, mlx*,10.1.0.0/16,10.0.0.6",
       {"mlx*: no such interface here", "10.1.0.0/16: no address of this host is in it",
        "10.0.0.6: no address of this host is in it"}},
      {"^dokcer0", {"dokcer0: no such interface here"}},
      {"^docker0,virbr0,cni*,br-*,br-0a1b2c3d4e5f,lo", {}},  // not every host has them
      {"^br-ex", {"br-ex: no such interface here"}},
      {"virbr0,eth0", {"virbr0: no such interface here"}},
      {"eth5,rdmap16s27,rdmap*", {}},
      {"^rdmap17s28", {"rdmap17s28: no such interface here"}},
      {"eth0,", {}},
  };
  for (const auto& [filter, expected] : cases) EXPECT_EQ(unmatched_items(host, filter, cards), expected) << filter;
}

TEST(UnmatchedItems, TheInterfacesOfThisHostAreKnownByName) {
  const auto addresses = interface_addresses();
  ASSERT_TRUE(addresses);
  if (addresses->empty() || card_names().empty()) GTEST_SKIP() << "no interface here, or no /sys";
  EXPECT_THAT(card_names(), Contains(addresses->front().interface));
}

TEST(ChooseInterface, RefusesAMalformedFilter) {
  for (const char* filter : {"^", ",", "eth0,", ",eth0", "eth0,^lo", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/x",
                             "10.0.0/8", "fd00::/129", "eth0/8"}) {
    auto choice = choose_interface(host, {filter, false, ""});
    ASSERT_FALSE(choice) << filter;
    EXPECT_EQ(choice.error().code(), ErrorCode::invalid_argument) << filter;
    EXPECT_THAT(choice.error().message(), HasSubstr(filter));
  }
}

TEST(InterfaceAddresses, TheLoopbackAddressIsFoundAndLeadsToItself) {
  auto addresses = interface_addresses();
  ASSERT_TRUE(addresses);
  const auto loopback = std::find_if(addresses->begin(), addresses->end(),
                                     [](const InterfaceAddress& a) { return a.address == "127.0.0.1"; });
  if (loopback == addresses->end()) GTEST_SKIP() << "no loopback address here";
  EXPECT_TRUE(loopback->loopback);
  EXPECT_EQ(loopback->prefix_bits, 8);
  if (loopback->up) {
    EXPECT_EQ(source_address_towards("127.0.0.1"), "127.0.0.1");
  }
  EXPECT_EQ(source_address_towards("not an address"), "");
}

}  // namespace
}  // namespace fabring

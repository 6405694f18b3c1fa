// Host lists and hostfiles, and how ranks are placed. Pure.
#include "tools/fabring/launch/host_slots.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fabring::tools {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

TEST(HostSlots, ReadsAList) {
  auto hosts = parse_hosts("a:4, me@b ,10.0.0.1:2,[fd00::1]:3,[fe80::1%eth0]");
  ASSERT_TRUE(hosts) << hosts.error().message();
  EXPECT_THAT(*hosts, ElementsAre(HostSlots{"a", 4}, HostSlots{"me@b", 1}, HostSlots{"10.0.0.1", 2},
                                  HostSlots{"fd00::1", 3}, HostSlots{"fe80::1%eth0", 1}));
}

TEST(HostSlots, AHostThatComesAgainAddsItsSlots) {
  EXPECT_THAT(*parse_hosts("a:2,b,a,a:3"), ElementsAre(HostSlots{"a", 6}, HostSlots{"b", 1}));
}

TEST(HostSlots, ReadsTheHostfilesOfOthers) {
  auto hosts = parse_hostfile("# the big ones\n\na slots=4 max_slots=8\r\nb:2   # MPICH\n\tc\n[fd00::1]:2\na", "F");
  ASSERT_TRUE(hosts) << hosts.error().message();
  EXPECT_THAT(*hosts, ElementsAre(HostSlots{"a", 5}, HostSlots{"b", 2}, HostSlots{"c", 1}, HostSlots{"fd00::1", 2}));
}

TEST(HostSlots, RefusesWhatIsNoHost) {
  const std::pair<const char*, const char*> cases[] = {
      {"a:0", "a:0"},
      {"a:many", "many"},
      {"a,,b", "empty"},
      {"fd00::1", "[fd00::1]"},
      {"[fd00::1", "without its ]"},
      {"[fd00::1]4", ":SLOTS"},
      {"-oProxyCommand=reboot", "no host name"},  // would be an option of ssh
      {"me@-l", "no host name"},
      {"a;reboot", "';'"},
      {"$(reboot)", "'$'"},
      {"a\nb", "cannot be part"},
      {":4", "empty"},
  };
  for (const auto& [text, expected] : cases) {
    auto hosts = parse_hosts(text);
    ASSERT_FALSE(hosts) << text;
    EXPECT_THAT(hosts.error().message(), HasSubstr(expected)) << text;
  }
}

TEST(HostSlots, ABadLineIsNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"a\nb slots=x", "F:2: "}, {"a cpus=4", "F:1: 'cpus=4'"}, {"a:2 slots=3", "twice"}, {"# nothing\n", "no host"}};
  for (const auto& [text, expected] : cases) {
    auto hosts = parse_hostfile(text, "F");
    ASSERT_FALSE(hosts) << text;
    EXPECT_THAT(hosts.error().message(), HasSubstr(expected)) << text;
    EXPECT_THAT(hosts.error().message(), StartsWith("F:"));
  }
}

TEST(Placement, FillsHostsInOrder) {
  const std::vector<HostSlots> hosts{{"a", 2}, {"b", 1}, {"c", 3}};
  EXPECT_THAT(*place_ranks(hosts, 0), ElementsAre(HostShare{"a", 0, 2}, HostShare{"b", 2, 1}, HostShare{"c", 3, 3}));
  EXPECT_THAT(*place_ranks(hosts, 4), ElementsAre(HostShare{"a", 0, 2}, HostShare{"b", 2, 1}, HostShare{"c", 3, 1}));
  EXPECT_THAT(*place_ranks(hosts, 1), ElementsAre(HostShare{"a", 0, 1}));
}

TEST(Placement, TooFewSlotsSayWhatToDo) {
  auto shares = place_ranks({{"a", 2}, {"b", 2}}, 5);
  ASSERT_FALSE(shares);
  for (const char* part : {"5 ranks", "4 slots (a:2,b:2)", "-n 4", "slots=3"})
    EXPECT_THAT(shares.error().message(), HasSubstr(part));
}

}  // namespace
}  // namespace fabring::tools

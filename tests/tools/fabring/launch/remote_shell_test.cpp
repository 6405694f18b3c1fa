// How other hosts are reached, and what it means when they are not. Pure.
#include "tools/fabring/launch/remote_shell.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/fabring/launch/hosts_environment.hpp"

namespace fabring::tools {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

TEST(RemoteShell, CutsACommandIntoWords) {
  EXPECT_THAT(*split_words("  ssh -p 22  -i '/my key' \"a 'b'\" c\\ d '' "),
              ElementsAre("ssh", "-p", "22", "-i", "/my key", "a 'b'", "c d", ""));
  EXPECT_FALSE(split_words("ssh 'x"));
  EXPECT_FALSE(split_words("  "));
}

TEST(RemoteShell, QuotesThePath) {
  EXPECT_THAT(ssh_command({"ssh", "-T"}, "me@b", "/it's/$here"),
              ElementsAre("ssh", "-T", "me@b", "exec '/it'\\''s/$here' agent"));
}

TEST(RemoteShell, KnowsThisHostByNameAndAddressWithoutANameService) {
  const auto own = [](const std::string& address) { return address == "10.0.0.1"; };
  const auto ask_nobody = [](const std::string& name) -> std::vector<std::string> {
    ADD_FAILURE() << "asked for " << name;
    return {};
  };
  for (const char* here : {"localhost", "10.0.0.1", "node1"})
    EXPECT_TRUE(is_this_host(here, "node1", own, ask_nobody)) << here;
  EXPECT_TRUE(is_this_host("node1.cluster", "node1.cluster", own, ask_nobody));
  for (const char* elsewhere : {"node10", "node", "10.0.0.2", "me@node1", "node2.cluster"})
    EXPECT_FALSE(is_this_host(elsewhere, "node1", own, ask_nobody)) << elsewhere;
}

// Hosts of two domains may have the same short name, and ranks would be started on the wrong one.
TEST(RemoteShell, ANameThatAgreesUpToTheFirstDotIsThisHostsIfItLeadsHere) {
  const auto own = [](const std::string& address) { return address == "10.0.0.1"; };
  const auto service = [](const std::string& name) -> std::vector<std::string> {
    if (name == "train.a" || name == "train") return {"192.0.2.7", "10.0.0.1"};
    if (name == "train.b") return {"10.0.0.2"};
    return {};
  };
  EXPECT_TRUE(is_this_host("train.a", "train", own, service));
  EXPECT_TRUE(is_this_host("train", "train.a", own, service));
  EXPECT_FALSE(is_this_host("train.b", "train", own, service));
  EXPECT_FALSE(is_this_host("train.unknown", "train", own, service));
  EXPECT_FALSE(is_this_host("train.b", "train.a", own, service));
}

NoAnswer after(int status, std::string errors) {
  return {"n7", "ssh", "/opt/fabring", Ending{status, 0}, std::move(errors), {}};
}

TEST(RemoteShell, SaysWhatEachFailureMeansAndWhatToDo) {
  const std::pair<NoAnswer, std::vector<std::string>> cases[] = {
      {after(255, "ssh: Could not resolve hostname n7: Name or service not known\r\n"), {"unknown", "spelling"}},
      {after(255, "ssh: connect to host n7 port 22: Connection refused"), {"nobody listens", "sshd"}},
      {after(255, "ssh: connect to host n7 port 22: Connection timed out"), {"does not answer", "is the host up"}},
      {after(255, "ssh: connect to host n7 port 22: No route to host"), {"no route", "is the host up"}},
      {after(255, "me@n7: Permission denied (publickey)."), {"log in", "ssh-copy-id n7"}},
      {after(255, "Host key verification failed."), {"host key", "`ssh n7 true` once"}},
      {after(127, "sh: 1: exec: /opt/fabring: not found"), {"cannot run '/opt/fabring'", "--remote-fabring"}},
      {after(2, "fabring: 'agent' is not a subcommand"), {"too old", "same version"}},
      {after(4, "odd"), {"exited with status 4", "odd", "by hand"}},
      {{"n7", "ssh", "/opt/fabring", {}, "", ""}, {"no answer", "login shell"}},
  };
  for (const auto& [found, parts] : cases) {
    const std::string text = explain_no_answer(found);
    EXPECT_THAT(text, testing::StartsWith("host n7: "));
    for (const std::string& part : parts) EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(explain_no_answer(after(255, "evil\x1b[2J timed out")), testing::Not(HasSubstr("\x1b")));
}

AgentFacts reached(std::string at, std::string from) { return {"", 1, std::move(at), std::move(from)}; }

TEST(MeetingAddress, IsTheFirstHostsAsTheOthersSeeIt) {
  const auto address = [](const std::vector<MeetingHost>& hosts) {
    return meeting_address(hosts, [](const std::string& at) { return at == "10.0.0.1"; });
  };
  const MeetingHost here{"localhost", false, {}}, there{"b", true, reached("10.0.0.2", "10.0.0.1")};
  EXPECT_EQ(*address({here}), "127.0.0.1");
  EXPECT_EQ(*address({here, there}), "10.0.0.1");
  EXPECT_EQ(*address({there, here}), "10.0.0.2");
  EXPECT_EQ(*address({{"me@b", true, {}}, here}), "b");                         // ssh did not tell
  EXPECT_EQ(*address({{"me@10.9.0.2", true, there.facts}, here}), "10.9.0.2");  // said by the user
  EXPECT_EQ(*address({{"node1", false, {}}, {"b", true, {}}}), "node1");
  EXPECT_FALSE(address({here, {"b", true, {}}}));  // localhost is no address for b
}

// What a host behind one sees is the jump host's address.
TEST(MeetingAddress, IsNoneOfAJumpHost) {
  const auto address = [](const std::vector<MeetingHost>& hosts) {
    return meeting_address(hosts, [](const std::string& at) { return at == "10.0.0.1"; });
  };
  const MeetingHost here{"localhost", false, {}}, behind{"b", true, reached("10.1.0.2", "10.1.0.1")};
  const MeetingHost beside{"c", true, reached("10.0.0.3", "10.0.0.1")};
  EXPECT_EQ(*address({here, behind, beside}), "10.0.0.1") << "another host saw where we are";
  EXPECT_EQ(*address({{"node1", false, {}}, behind}), "node1");
  const auto none = address({here, behind});
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message(), AllOf(HasSubstr("b was reached from 10.1.0.1"), HasSubstr("--master-addr")));
}

// On Debian /etc/hosts has 127.0.1.1 for the host's own name, so `ssh me@node0` on node0 goes over loopback.
TEST(MeetingAddress, IsNoLoopbackForOtherHosts) {
  const auto address = [](const std::vector<MeetingHost>& hosts) {
    return meeting_address(hosts, [](const std::string& at) { return at == "10.0.0.1" || at.starts_with("127."); });
  };
  const auto looped = [](std::string name, std::string host_name, std::string at) {
    return MeetingHost{std::move(name), true, {std::move(host_name), 1, std::move(at), "127.0.0.1"}};
  };
  const MeetingHost there{"me@node1", true, {"node1", 1, "10.0.0.2", "10.0.0.1"}};
  const MeetingHost behind{"me@node1", true, {"node1", 1, "10.1.0.2", "10.1.0.1"}};
  for (const char* loopback : {"127.0.1.1", "127.0.0.1", "::1", "::ffff:127.0.0.1"}) {
    const MeetingHost self = looped("me@node0", "node0", loopback);
    EXPECT_EQ(*address({self, there}), "10.0.0.1") << loopback;
    EXPECT_EQ(*address({self, behind}), "node0") << "no other host saw an address of this one";
    EXPECT_EQ(*address({self, looped("you@node0", "node0", loopback)}), "127.0.0.1") << "one machine";
    EXPECT_EQ(*address({self, {"localhost", false, {"node0", 1, "", ""}}}), "127.0.0.1");
  }
  EXPECT_EQ(*address({there, looped("me@node0", "node0", "127.0.1.1")}), "10.0.0.2");
  for (const char* name : {"me@localhost", "me@127.0.0.1", "me@localhost.localdomain"}) {
    const auto none = address({looped(name, "node0", "127.0.0.1"), behind});
    ASSERT_FALSE(none) << name;
    EXPECT_THAT(none.error().message(), HasSubstr("--master-addr"));
  }
  // Two hosts at the ends of two tunnels, as virtual machines have them: each is reached over its own loopback.
  EXPECT_EQ(*address({looped("vm0", "vm0", "127.0.0.1"), looped("vm1", "vm1", "127.0.0.1")}), "vm0");
}

TEST(ExportedEnvironment, IsFabringsOwnAndWhatWasAskedFor) {
  const Environment here{
      {"FABRING_LOG", "info"}, {"FABRING_RANK", "3"}, {"FABRING_SECRET_FILE", "/s"}, {"HOME", "/me"}, {"LIBS", "/l"}};
  EXPECT_THAT(*exported_environment({"LIBS", "A=b=c", "E="}, here),
              UnorderedElementsAre(Pair("FABRING_LOG", "info"), Pair("LIBS", "/l"), Pair("A", "b=c"), Pair("E", "")));
  auto missing = exported_environment({"NOPE"}, here);
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message(), AllOf(HasSubstr("NOPE is not set"), HasSubstr("NOPE=VALUE")));
  EXPECT_FALSE(exported_environment({"=x"}, here));
}

}  // namespace
}  // namespace fabring::tools

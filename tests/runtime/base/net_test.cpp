#include "runtime/base/net/net.hpp"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "runtime/base/descriptor.hpp"
#include "tests/runtime/base/net_fixture.hpp"
#include "tests/support/few_files.hpp"

namespace {

std::atomic<bool> no_port_is_left{false};

}  // namespace

/// This program's own, instead of the C library's.
extern "C" int bind(int fd, const sockaddr* to, socklen_t length) noexcept {
  if (no_port_is_left) {
    errno = EADDRINUSE;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_bind, fd, to, length));
}

namespace fabring::net {
namespace {

int option(const Stream& stream, int level, int name) {
  int value = -1;
  socklen_t length = sizeof(value);
  ::getsockopt(stream.native_handle(), level, name, &value, &length);
  return value;
}

TEST(SocketAddress, ReadsAndWritesBothFamiliesInOneSpelling) {
  const auto v4 = SocketAddress::parse("127.0.0.1:80");
  ASSERT_TRUE(v4);
  EXPECT_EQ(v4->to_string(), "127.0.0.1:80");
  EXPECT_TRUE(v4->is_loopback());
  EXPECT_FALSE(v4->is_v6());
  const auto v6 = SocketAddress::parse("[2001:DB8:0::1]:65535");
  ASSERT_TRUE(v6);
  EXPECT_EQ(v6->to_string(), "[2001:db8::1]:65535");
  EXPECT_FALSE(v6->is_loopback());
  EXPECT_TRUE((SocketAddress{"::1", 1}.is_loopback()));
  EXPECT_TRUE((SocketAddress{"::ffff:127.0.0.1", 1}.is_loopback()));
  EXPECT_FALSE((SocketAddress{"10.0.0.1", 1}.is_loopback()));
}

TEST(SocketAddress, OfALinkIsReachedByTheOwnInterfaceWhateverTheOtherHostCallsIts) {
  const auto told = SocketAddress::parse_told("[fe80::1%nosuchif]:80", "fe80::2%lo");
  ASSERT_TRUE(told);
  EXPECT_EQ(told->to_string(), "[fe80::1%lo]:80");
  EXPECT_EQ(SocketAddress::parse_told("[fd00::1]:80", "fe80::2%lo")->to_string(), "[fd00::1]:80");
  EXPECT_EQ(SocketAddress::parse_told("10.0.0.1:80", "10.0.0.2")->to_string(), "10.0.0.1:80");
  for (const char* bad : {"[fe80::1%nosuchif:80", "]fe80::1%nosuchif", "fe80::1%", "%", ""})
    EXPECT_FALSE(SocketAddress::parse_told(bad, "fe80::2%lo")) << bad;
  EXPECT_FALSE(SocketAddress::parse_told("[fe80::1%nosuchif]:80", "fd00::2")) << "not of one link";
}

TEST(SocketAddress, RefusesWhatIsNotANumericAddressAndPort) {
  for (const char* bad : {"", ":", "127.0.0.1", "127.0.0.1:", ":80", "localhost:80", "127.0.0.1:65536", "127.0.0.1:-1",
                          "127.0.0.1:8x", "127.1:80", "::1:80", "[::1]", "[127.0.0.1]:80", "[::1%nosuchif]:80"}) {
    EXPECT_FALSE(SocketAddress::parse(bad)) << bad;
  }
  EXPECT_FALSE(SocketAddress::parse(std::string(1000, '1').append(":80")));
  EXPECT_FALSE(SocketAddress::parse(std::string_view("127.0.0.1\0x:80", 14)));
}

TEST(Resolve, FindsLocalhostAndExplainsAFailure) {
  const auto found = resolve("localhost", 99);
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->front().is_loopback());
  EXPECT_EQ(found->front().port, 99);
  const auto missing = resolve("no-such-host.invalid", 99);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), ErrorCode::unavailable);
  EXPECT_NE(missing.error().message().find("no-such-host.invalid"), std::string::npos);
}

TEST(Loop, WakeFromAnotherThreadEndsASleepAndAWakeBeforeIsNotLost) {
  Loop loop;
  loop.wake();
  loop.poll();  // may eat the handler, must not eat the wake
  auto begin = Clock::now();
  loop.run_for(patience);
  EXPECT_LT(Clock::now() - begin, patience / 2);
  std::thread other([&loop] { loop.wake(); });
  begin = Clock::now();
  loop.run_for(patience);
  EXPECT_LT(Clock::now() - begin, patience / 2);
  other.join();
}

TEST(Loop, RunForReturnsAtItsLimitAndPostRunsInTheLoop) {
  Loop loop;
  const auto begin = Clock::now();
  EXPECT_EQ(loop.run_for(3ms), 0u);
  EXPECT_GE(Clock::now() - begin, 3ms);
  std::thread::id ran_in;
  std::thread([&] { loop.post([&] { ran_in = std::this_thread::get_id(); }); }).join();
  EXPECT_TRUE(reach(loop, [&] { return ran_in == std::this_thread::get_id(); }));
}

TEST(Loop, AfterRunsOnceAndNotAtAllWhenItsGuardIsDropped) {
  Loop loop;
  int kept = 0;
  int dropped = 0;
  const auto guard = loop.after(2ms, [&] { ++kept; });
  loop.after(1ms, [&] { ++dropped; }).reset();
  const auto forever = loop.after(std::chrono::nanoseconds::max(), [&] { ++dropped; });
  EXPECT_TRUE(reach(loop, [&] { return kept > 0; }));
  loop.run_for(2ms);
  EXPECT_EQ(kept, 1);
  EXPECT_EQ(dropped, 0);
}

class StreamOverBothFamilies : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Net, StreamOverBothFamilies, testing::Values("127.0.0.1", "::1"),
                         [](const auto& i) { return std::string(i.param) == "::1" ? "v6" : "v4"; });

TEST_P(StreamOverBothFamilies, CarriesBytesAndReportsTheEnd) {
  Loop loop;
  Pair pair(loop, GetParam());
  if (!pair.listener) GTEST_SKIP() << "no " << GetParam() << " here";
  ASSERT_TRUE(pair.ok());
  EXPECT_EQ(pair.client->remote(), pair.listener->address());
  EXPECT_EQ(pair.client->local(), pair.server->remote());
  char got[8] = {};
  EXPECT_EQ(pair.server->read(got, sizeof(got)).state, Io::again);
  bool readable = false;
  pair.server->when_readable([&] { readable = true; });
  char hello[] = "hel", lo[] = "lo";
  const iovec parts[] = {{hello, 3}, {lo, 2}};
  EXPECT_EQ(pair.client->write(parts).bytes, 5u);
  ASSERT_TRUE(reach(loop, [&] { return readable; }));
  const iovec into[] = {{got, 2}, {got + 2, 6}};
  const IoResult read = pair.server->read(into);
  EXPECT_EQ(read.state, Io::done);
  EXPECT_EQ(std::string(got, read.bytes), "hello");
  pair.client->shutdown_send();
  readable = false;
  pair.server->when_readable([&] { readable = true; });
  ASSERT_TRUE(reach(loop, [&] { return readable; }));
  EXPECT_EQ(pair.server->read(got, sizeof(got)).state, Io::closed);
  EXPECT_EQ(pair.server->write("x", 1).state, Io::done) << "the other half is still open";
}

TEST_P(StreamOverBothFamilies, HasTheOptionsEverySocketOfOursHas) {
  Loop loop;
  Pair pair(loop, GetParam());
  if (!pair.listener) GTEST_SKIP() << "no " << GetParam() << " here";
  ASSERT_TRUE(pair.ok());
  for (const Stream* stream : {pair.client.get(), pair.server.get()}) {
    EXPECT_EQ(option(*stream, IPPROTO_TCP, TCP_NODELAY), 1);
    EXPECT_EQ(option(*stream, SOL_SOCKET, SO_KEEPALIVE), 1);
    EXPECT_GT(option(*stream, IPPROTO_TCP, TCP_USER_TIMEOUT), 0);
    // A firewall forgets a connection on which nothing moves, at the soonest after some minutes.
    EXPECT_LE(option(*stream, IPPROTO_TCP, TCP_KEEPIDLE), 60);
    EXPECT_LE(option(*stream, IPPROTO_TCP, TCP_KEEPINTVL), 60);
    EXPECT_TRUE(::fcntl(stream->native_handle(), F_GETFD) & FD_CLOEXEC);
    EXPECT_TRUE(::fcntl(stream->native_handle(), F_GETFL) & O_NONBLOCK);
  }
}

TEST(Stream, TheKernelIsMorePatientThanTheSilenceAllowed) {
  const auto timeout_ms_of = [](std::chrono::milliseconds silence) {
    Loop loop;
    loop.allow_silence(silence);
    Pair pair(loop);
    EXPECT_TRUE(pair.ok());
    const int client = option(*pair.client, IPPROTO_TCP, TCP_USER_TIMEOUT);
    EXPECT_EQ(option(*pair.server, IPPROTO_TCP, TCP_USER_TIMEOUT), client);
    return std::chrono::milliseconds(client);
  };
  EXPECT_EQ(timeout_ms_of(30s), 30min);
  EXPECT_EQ(timeout_ms_of(2h), 4h);
  EXPECT_GT(timeout_ms_of(std::chrono::milliseconds::max()), std::chrono::days(24));
}

TEST(Stream, WritingToAGonePeerFailsWithoutASignal) {
  Loop loop;
  Pair pair(loop);
  ASSERT_TRUE(pair.ok());
  pair.server.reset();
  IoResult last;
  EXPECT_TRUE(reach(loop, [&] { return (last = pair.client->write("x", 1)).state == Io::failed; }));
  EXPECT_TRUE(last.error == EPIPE || last.error == ECONNRESET) << last.error;
}

TEST(Stream, WhenWritableComesBackAfterAFullSocketIsDrained) {
  Loop loop;
  Pair pair(loop);
  ASSERT_TRUE(pair.ok());
  std::vector<char> bulk(1 << 20);
  while (pair.client->write(bulk.data(), bulk.size()).state == Io::done) {
  }
  bool writable = false;
  pair.client->when_writable([&] { writable = true; });
  loop.run_for(2ms);
  EXPECT_FALSE(writable);
  EXPECT_TRUE(reach(loop, [&] {
    pair.server->read(bulk.data(), bulk.size());
    return writable;
  }));
}

TEST(Stream, HandlersOfAClosedOrDestroyedStreamNeverRun) {
  Loop loop;
  Pair pair(loop);
  ASSERT_TRUE(pair.ok());
  int ran = 0;
  pair.server->when_readable([&] { ++ran; });
  pair.client->when_readable([&] { ++ran; });
  pair.client->write("x", 1);
  pair.server->write("x", 1);
  pair.server->close();
  pair.client.reset();
  EXPECT_FALSE(pair.server->open());
  EXPECT_EQ(pair.server->write("x", 1).state, Io::failed);
  for (int i = 0; i < 5; ++i) loop.run_for(1ms);
  EXPECT_EQ(ran, 0);
}

TEST(Stream, AHandlerMayDestroyItsOwnStream) {
  Loop loop;
  Pair pair(loop);
  ASSERT_TRUE(pair.ok());
  bool ran = false;
  pair.server->when_readable([&] {
    pair.server.reset();
    ran = true;
  });
  pair.client->write("x", 1);
  EXPECT_TRUE(reach(loop, [&] { return ran; }));
}

TEST(Stream, SetsACongestionControlAndNamesTheAllowedOnesForAnother) {
  Loop loop;
  Pair pair(loop);
  ASSERT_TRUE(pair.ok());
  const std::string present = pair.client->congestion_control();
  EXPECT_FALSE(present.empty());
  EXPECT_TRUE(pair.client->set_congestion_control(present).ok());
  const Status refused = pair.client->set_congestion_control("nosuch");
  EXPECT_EQ(refused.code(), ErrorCode::unsupported);
  EXPECT_NE(refused.message().find("allowed here: "), std::string::npos) << refused.message();
  EXPECT_EQ(pair.client->congestion_control(), present);
}

// Before anything of the system's own has touched the socket: bbr leaves its pacing behind.
TEST(Net, ConnectionsBeginWithTheCongestionControlThatIsAskedFor) {
  const std::string other = system_congestion_control() == "reno" ? "cubic" : "reno";
  if (!try_congestion_control(other).ok()) GTEST_SKIP() << other << " is not allowed here";
  Loop loop;
  std::unique_ptr<Stream> client, server;
  auto listener = Listener::open(loop, {"127.0.0.1", 0}, [&](std::unique_ptr<Stream> s) { server = std::move(s); });
  ASSERT_TRUE(listener);
  ASSERT_TRUE((*listener)->set_congestion_control(other).ok());
  EXPECT_FALSE((*listener)->set_congestion_control("nosuch").ok());
  const auto keep = [&](Result<std::unique_ptr<Stream>> stream) {
    if (stream) client = std::move(*stream);
  };
  const auto guard = connect(loop, (*listener)->address(), patience, keep, {.from = {}, .congestion_control = other});
  ASSERT_TRUE(reach(loop, [&] { return client && server; }));
  EXPECT_EQ(client->congestion_control(), other);
  EXPECT_EQ(server->congestion_control(), other);

  Status why;
  const auto refuse = [&](Result<std::unique_ptr<Stream>> stream) { why = stream.error(); };
  const auto refused =
      connect(loop, (*listener)->address(), patience, refuse, {.from = {}, .congestion_control = "nosuch"});
  ASSERT_TRUE(reach(loop, [&] { return !why.ok(); }));
  EXPECT_EQ(why.code(), ErrorCode::unsupported) << why.message();
}

TEST(Listener, APortOfAnotherOfOursIsSaidToBeAnotherEngines) {
  Loop loop;
  auto first = Listener::open(loop, {"127.0.0.1", 0}, [](auto) {});
  ASSERT_TRUE(first);
  const auto second = Listener::open(loop, (*first)->address(), [](auto) {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().message(), "cannot listen on " + (*first)->address().to_string() +
                                          ": Address already in use; another engine of this process listens there");
}

TEST(Listener, APortInUseNamesAddressPortAndHolder) {
  Loop loop;
  const Descriptor first(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in held{};
  held.sin_family = AF_INET;
  held.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(held);
  ASSERT_EQ(::bind(first.fd(), reinterpret_cast<sockaddr*>(&held), length), 0);
  ASSERT_EQ(::listen(first.fd(), 1), 0);
  ASSERT_EQ(::getsockname(first.fd(), reinterpret_cast<sockaddr*>(&held), &length), 0);
  const SocketAddress address{"127.0.0.1", ntohs(held.sin_port)};
  const auto second = Listener::open(loop, address, [](auto) {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), ErrorCode::unavailable);
  const std::string& text = second.error().message();
  EXPECT_NE(text.find(address.to_string()), std::string::npos) << text;
  EXPECT_NE(text.find("pid " + std::to_string(::getpid()) + " ("), std::string::npos) << text;
  EXPECT_NE(text.find(::program_invocation_short_name), std::string::npos) << "the command line: " << text;
}

TEST(Listener, WithoutAPortLeftNobodyIsSaidToHoldIt) {
  Loop loop;
  no_port_is_left = true;
  const auto listener = Listener::open(loop, {"127.0.0.1", 0}, [](auto) {});
  no_port_is_left = false;
  ASSERT_FALSE(listener);
  EXPECT_EQ(listener.error().code(), ErrorCode::unavailable);
  EXPECT_EQ(listener.error().message(),
            "cannot listen on 127.0.0.1:0: Address already in use; this host has no port left for it "
            "(net.ipv4.ip_local_port_range)");
}

TEST(Listener, AnAddressOfNobodyIsExplained) {
  Loop loop;
  const auto listener = Listener::open(loop, {"192.0.2.1", 0}, [](auto) {});
  ASSERT_FALSE(listener);
  EXPECT_NE(listener.error().message().find("no interface"), std::string::npos) << listener.error().message();
  EXPECT_EQ(Listener::open(loop, {"localhost", 0}, [](auto) {}).error().code(), ErrorCode::invalid_argument);
}

void run_out_of_descriptors() {
  Loop loop;
  std::vector<std::unique_ptr<Stream>> accepted;
  auto listener = Listener::open(loop, {"127.0.0.1", 0}, [&](auto s) { accepted.push_back(std::move(s)); });
  ASSERT_TRUE(listener);
  int connected = 0;
  const auto guard = connect(loop, (*listener)->address(), patience, [&](auto r) { connected += r.has_value(); });
  // The client has its descriptor; now take all others away before the loop gets to accept.
  const rlimit low{3, 3};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  std::size_t turns = 0;
  const auto until = Clock::now() + 120ms;
  while (Clock::now() < until) turns += loop.run_for(until - Clock::now()) + 1;
  EXPECT_TRUE(accepted.empty());
  EXPECT_LT(turns, 100u) << "the loop must not spin";
  ::close(STDIN_FILENO);  // room for one
  EXPECT_TRUE(reach(loop, [&] { return accepted.size() == 1; }));
}

void listen_without_files() {
  Loop loop;
  fabring::tests::no_more_files();
  const auto listener = Listener::open(loop, {"127.0.0.1", 0}, [](auto) {});
  ASSERT_FALSE(listener);
  EXPECT_EQ(listener.error().code(), ErrorCode::unavailable);
  EXPECT_EQ(listener.error().message(),
            "cannot listen on 127.0.0.1:0: Too many open files; raise the limit on open files (ulimit -n)");
}

TEST(Listener, WithoutAFileForItSaysWhichLimitToRaise) {
  EXPECT_EXIT((listen_without_files(), std::_Exit(testing::Test::HasFailure() ? 1 : 0)), testing::ExitedWithCode(0),
              "");
}

TEST(Listener, RunningOutOfDescriptorsPausesItAndThenItAcceptsAgain) {
  const auto in_a_child = [] {  // who lowers the hard limit may not raise it again
    run_out_of_descriptors();
    std::_Exit(testing::Test::HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(in_a_child(), testing::ExitedWithCode(0), "");
}

TEST(Connect, ARefusalIsAnErrorThatNamesTheAddress) {
  Loop loop;
  SocketAddress nobody;
  {
    auto listener = Listener::open(loop, {"127.0.0.1", 0}, [](auto) {});
    ASSERT_TRUE(listener);
    nobody = (*listener)->address();
  }
  Status status;
  bool called = false;
  const auto guard = connect(loop, nobody, patience, [&](auto r) {
    called = true;
    if (!r) status = r.error();
  });
  ASSERT_TRUE(reach(loop, [&] { return called; }));
  EXPECT_EQ(status.code(), ErrorCode::unavailable);
  EXPECT_NE(status.message().find(nobody.to_string()), std::string::npos) << status.message();
}

TEST(Connect, NoAnswerEndsAtTheLimitAndADroppedGuardIsSilent) {
  Loop loop;
  // A listener whose backlog is full drops the connection requests.
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(here);
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&here), length), 0);
  ASSERT_EQ(::listen(fd, 0), 0);
  ASSERT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&here), &length), 0);
  const SocketAddress address{"127.0.0.1", ntohs(here.sin_port)};
  std::vector<std::shared_ptr<void>> guards;
  int timeouts = 0;
  int silent = 0;
  for (int i = 0; i < 6; ++i) {
    guards.push_back(
        connect(loop, address, 30ms, [&](auto r) { timeouts += !r && r.error().code() == ErrorCode::timeout; }));
  }
  connect(loop, address, 1ms, [&](auto) { ++silent; }).reset();
  EXPECT_TRUE(reach(loop, [&] { return timeouts > 0; }));
  EXPECT_EQ(silent, 0);
  ::close(fd);
}

}  // namespace
}  // namespace fabring::net

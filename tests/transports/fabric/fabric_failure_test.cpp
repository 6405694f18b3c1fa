// Peers that die, stop, never answer or misbehave.

#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>

#include "tests/transports/fabric/fabric_world.hpp"

namespace fabring {
namespace {

constexpr std::size_t big = 4 << 20;

// A process that is rank 1 of 3 and knows ranks 0 and 2. It receives in slots 0 ... receives - 1 from rank 0, sends one
// byte back to slot 100 when that is ready, and polls until it is killed.
class OtherProcess {
 public:
  explicit OtherProcess(int receives) {
    int up[2], down[2];
    if (pipe(up) || pipe(down)) std::abort();
    pid_ = fork();
    if (pid_ == 0) run(receives, up[1], down[0]);
    from_ = up[0];
    to_ = down[1];
    ::close(up[1]);
    ::close(down[0]);
    char bytes[257] = {};
    const ssize_t size = read(from_, bytes, 256);
    address_.assign(bytes, static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  }
  ~OtherProcess() {
    end(SIGKILL);
    ::close(from_);
    ::close(to_);
  }
  const std::string& address() const { return address_; }
  void introduce(const std::string& address) {
    ASSERT_EQ(write(to_, address.data(), address.size()), ssize_t(address.size()));
  }
  void end(int signal) {
    if (pid_ <= 0) return;
    kill(pid_, signal);
    if (signal != SIGKILL) return;
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  [[noreturn]] static void run(int receives, int up, int down) {
    alarm(60);  // never outlives a broken test
    Member self{open_fabric(fabric_options(1, 3)), {}, 0};
    const std::string address = self.endpoint->address();
    if (write(up, address.data(), address.size()) < 0) _exit(1);
    char bytes[256];
    const ssize_t size = read(down, bytes, sizeof bytes);
    if (!self.endpoint->add_peer(0, {bytes, static_cast<std::size_t>(size)}).ok()) _exit(2);
    std::vector<std::byte> into(big), answer(1);
    for (int slot = 0; slot < receives; ++slot) self.endpoint->post_recv(0, static_cast<Slot>(slot), into, slot);
    while (self.endpoint->post_send(0, 100, answer, 1000) == Post::again) self.poll();
    for (;;) self.poll();
  }

  pid_t pid_ = -1;
  int from_ = -1, to_ = -1;
  std::string address_;
};

// Rank 0 here, rank 1 in the other process, rank 2 here too.
struct Trio {
  OtherProcess other;  // first: fork before libfabric is used
  World world{0};
  std::vector<std::byte> one = std::vector<std::byte>(1);

  explicit Trio(int receives) : other(receives) {
    for (Rank rank : {0, 1, 2})
      world.members.push_back({rank == 1 ? nullptr : open_fabric(fabric_options(rank, 3)), {}, 0});
    world.members.erase(world.members.begin() + 1);  // member 1 is rank 2
    other.introduce(world[0].endpoint->address());
    EXPECT_TRUE(world[0].endpoint->add_peer(1, other.address()).ok());
    EXPECT_TRUE(world[0].endpoint->add_peer(2, world[1].endpoint->address()).ok());
    EXPECT_TRUE(world[1].endpoint->add_peer(0, world[0].endpoint->address()).ok());
    EXPECT_TRUE(world.receive(0, 1, 100, one, 9000));
    EXPECT_TRUE(world.until([&] { return world[0].has(9000); })) << "never connected to the other process";
  }
  void exchange_with_rank_2(std::uint64_t context) {
    const auto sent = pattern(50'000, 2);
    std::vector<std::byte> into(sent.size());
    ASSERT_EQ(world[1].endpoint->post_recv(0, 1, into, context), Post::accepted);
    ASSERT_TRUE(world.send(0, 2, 1, sent, context));
    ASSERT_TRUE(world.until([&] { return world[0].has(context) && world[1].has(context); }));
    EXPECT_EQ(into, sent);
  }
};

TEST(FabricFailure, SendsToAKilledPeerCompleteAsLostWithItsRankAndReceivesEnd) {
  Trio trio(0);  // takes nothing: the sends stay in the middle
  World& world = trio.world;
  const auto sent = pattern(big, 1);
  std::vector<std::byte> into(1000);
  ASSERT_EQ(world[0].endpoint->post_recv(1, 200, into, 50), Post::accepted);
  for (std::uint64_t context = 1; context <= 4; ++context)
    ASSERT_EQ(world[0].endpoint->post_send(1, static_cast<Slot>(context), sent, context), Post::accepted);
  for (int i = 0; i < 100; ++i) world[0].poll();
  EXPECT_TRUE(world[0].endpoint->peer_error(1).ok());

  trio.other.end(SIGKILL);
  const std::size_t connecting = 1;  // the byte that Trio received
  ASSERT_TRUE(world.until([&] { return world[0].done.size() == connecting + 5; }));
  for (const std::uint64_t context : {2, 3, 4, 50}) EXPECT_EQ(world[0].outcome(context), Outcome::lost) << context;
  const Status why = world[0].endpoint->peer_error(1);
  EXPECT_EQ(why.code(), ErrorCode::peer_lost);
  EXPECT_EQ(why.context().rank, 1);
  EXPECT_NE(why.message().find("rank 1 at 127.0.0.1:"), std::string::npos) << why.message();
  EXPECT_NE(why.message().find("XNET"), std::string::npos) << why.message();
  EXPECT_EQ(world[0].twice, 0);

  EXPECT_EQ(world[0].endpoint->post_send(1, 9, sent, 60), Post::accepted);
  ASSERT_TRUE(world.until([&] { return world[0].has(60); }));
  EXPECT_EQ(world[0].outcome(60), Outcome::lost);
  trio.exchange_with_rank_2(70);
  EXPECT_TRUE(world[0].endpoint->peer_error(2).ok());
}

TEST(FabricFailure, TheFirstSendAfterAnIdlePeerWasKilledIsLostAndNotRetriedForEver) {
  Trio trio(1);
  World& world = trio.world;
  trio.other.end(SIGKILL);
  ASSERT_TRUE(world.until([&] {
    world[0].endpoint->post_send(1, 0, trio.one, 1);
    return !world[0].endpoint->peer_error(1).ok();
  }));
  EXPECT_EQ(world[0].endpoint->peer_error(1).code(), ErrorCode::peer_lost);
}

TEST(FabricFailure, ReceivesFromAKilledPeerEndWithDisconnect) {
  Trio trio(0);
  World& world = trio.world;
  std::vector<std::byte> into(1000);
  for (std::uint64_t context = 1; context <= 10; ++context)
    ASSERT_EQ(world[0].endpoint->post_recv(1, static_cast<Slot>(context), into, context), Post::accepted);
  trio.other.end(SIGKILL);
  trio.exchange_with_rank_2(70);
  EXPECT_FALSE(world[0].has(1)) << "if libfabric tells of it now, this transport's comments are out of date";
  world[0].endpoint->disconnect(1);
  const std::size_t before = 2;  // the byte that Trio received and the message to rank 2
  ASSERT_TRUE(world.until([&] { return world[0].done.size() == before + 10; }));
  for (std::uint64_t context = 1; context <= 10; ++context) EXPECT_EQ(world[0].outcome(context), Outcome::aborted);
  for (int i = 0; i < 100; ++i) world[0].poll();
  EXPECT_EQ(world[0].twice, 0);
  EXPECT_TRUE(world[0].endpoint->peer_error(1).ok());
}

TEST(FabricFailure, AStoppedPeerWithFullWindowsIsDroppedAndOthersGoOn) {
  Trio trio(0);
  World& world = trio.world;
  trio.other.end(SIGSTOP);
  const auto sent = pattern(big, 1);
  std::vector<std::byte> into(1000);
  ASSERT_EQ(world[0].endpoint->post_recv(1, 200, into, 50), Post::accepted);
  for (std::uint64_t context = 1; context <= 8; ++context)
    ASSERT_EQ(world[0].endpoint->post_send(1, static_cast<Slot>(context), sent, context), Post::accepted);
  trio.exchange_with_rank_2(70);
  EXPECT_FALSE(world[0].has(8));
  world[0].endpoint->disconnect(1);
  const std::size_t before = 2;  // the byte that Trio received and the message to rank 2
  ASSERT_TRUE(world.until([&] { return world[0].done.size() == before + 9; }));
  EXPECT_EQ(world[0].outcome(8), Outcome::aborted);
  EXPECT_EQ(world[0].outcome(50), Outcome::aborted);
  trio.exchange_with_rank_2(71);
  EXPECT_EQ(world[0].twice, 0);
}

TEST(FabricFailure, AnAddressThatRefusesIsGivenUpWithItsAddressAndTheTime) {
  auto gone = open_fabric(fabric_options(1, 2));
  const std::string address = gone->address();
  gone.reset();
  EndpointOptions options = fabric_options(0, 2);
  options.config.silence_timeout = 300ms;
  World world(0);
  world.members.push_back({open_fabric(options), {}, 0});
  ASSERT_TRUE(world[0].endpoint->add_peer(1, address).ok());
  std::vector<std::byte> bytes(10);
  ASSERT_EQ(world[0].endpoint->post_recv(1, 1, bytes, 1), Post::accepted);
  const auto start = Steady::now();
  ASSERT_TRUE(world.send(0, 1, 1, bytes, 2));
  EXPECT_GE(Steady::now() - start, 250ms);
  ASSERT_TRUE(world.until([&] { return world[0].has(1) && world[0].has(2); }));
  EXPECT_EQ(world[0].outcome(1), Outcome::lost);
  EXPECT_EQ(world[0].outcome(2), Outcome::lost);
  const std::string why = world[0].endpoint->peer_error(1).message();
  EXPECT_NE(why.find("127.0.0.1:"), std::string::npos) << why;
  EXPECT_NE(why.find("no connection in "), std::string::npos) << why;
}

TEST(FabricFailure, DisconnectWhileConnectingEndsWhatWasPosted) {
  World world(2);
  std::vector<std::byte> into(10);
  for (Rank rank : {0, 1}) {
    ASSERT_EQ(world[rank].endpoint->post_recv(1 - rank, 1, into, 1), Post::accepted);
    world[rank].endpoint->disconnect(1 - rank);
  }
  ASSERT_TRUE(world.until([&] { return world[0].has(1) && world[1].has(1); }));
  EXPECT_EQ(world[0].outcome(1), Outcome::aborted);
  EXPECT_EQ(world[1].outcome(1), Outcome::aborted);
  EXPECT_EQ(world[0].endpoint->post_send(1, 1, into, 2), Post::accepted);
  ASSERT_TRUE(world.until([&] { return world[0].has(2); }));
  EXPECT_EQ(world[0].outcome(2), Outcome::aborted);
}

TEST(FabricFailure, AMessageLongerThanItsReceiveLosesTheConnectionAndNothingElse) {
  World world(3);
  const auto sent = pattern(5000, 1);
  std::vector<std::byte> guarded(2000, std::byte{0x5a});
  const auto into = std::span(guarded).first(1000);
  ASSERT_TRUE(world.receive(1, 0, 1, into, 1));
  ASSERT_TRUE(world.send(0, 1, 1, sent, 2));
  ASSERT_TRUE(world.until([&] { return world[1].has(1); }));
  EXPECT_EQ(world[1].outcome(1), Outcome::lost);
  EXPECT_EQ(world[1].endpoint->peer_error(0).code(), ErrorCode::transport_error);
  for (std::size_t i = 1000; i < guarded.size(); ++i) ASSERT_EQ(guarded[i], std::byte{0x5a});
  std::vector<std::byte> ok(5000);
  ASSERT_TRUE(world.receive(1, 2, 1, ok, 3));
  ASSERT_TRUE(world.send(2, 1, 1, sent, 4));
  ASSERT_TRUE(world.until([&] { return world[1].has(3); }));
  EXPECT_EQ(world[1].outcome(3), Outcome::done);
}

void expect_strangers(const std::function<void(EndpointOptions& of_rank_1)>& differ) {
  World world(0);
  for (Rank rank : {0, 1}) {
    EndpointOptions options = fabric_options(rank, 2);
    if (rank == 1) differ(options);
    options.config.silence_timeout = 300ms;
    world.members.push_back({open_fabric(options), {}, 0});
  }
  for (Rank rank : {0, 1})
    ASSERT_TRUE(world[rank].endpoint->add_peer(1 - rank, world[1 - rank].endpoint->address()).ok());
  std::vector<std::byte> into(10);
  ASSERT_EQ(world[1].endpoint->post_recv(0, 1, into, 1), Post::accepted);
  ASSERT_TRUE(world.send(0, 1, 1, into, 2));
  ASSERT_TRUE(world.until([&] { return world[0].has(2); }));
  EXPECT_EQ(world[0].outcome(2), Outcome::lost);
  EXPECT_FALSE(world[1].has(1));
}

TEST(FabricFailure, AMemberOfAnotherJobIsAStrangerAndReachesNothing) {
  expect_strangers([](EndpointOptions& options) { ++options.job_nonce; });
}

// The nonce travels in clear text when ranks meet.
TEST(FabricFailure, WhoKnowsTheNonceAndNotTheSecretIsAStrangerAndReachesNothing) {
  expect_strangers([](EndpointOptions& options) { options.secret = "0123456789abcdef"; });
}

TEST(FabricFailure, RanksWithTheSameSecretReachEachOther) {
  World world(0);
  for (Rank rank : {0, 1}) {
    EndpointOptions options = fabric_options(rank, 2);
    options.secret = "0123456789abcdef";
    world.members.push_back({open_fabric(options), {}, 0});
  }
  for (Rank rank : {0, 1})
    ASSERT_TRUE(world[rank].endpoint->add_peer(1 - rank, world[1 - rank].endpoint->address()).ok());
  std::vector<std::byte> into(10);
  const std::vector<std::byte> from = pattern(10, 1);
  ASSERT_EQ(world[1].endpoint->post_recv(0, 1, into, 1), Post::accepted);
  ASSERT_TRUE(world.send(0, 1, 1, from, 2));
  ASSERT_TRUE(world.until([&] { return world[0].has(2) && world[1].has(1); }));
  EXPECT_EQ(into, from);
}

TEST(FabricFailure, GarbageOnThePortDisturbsNobody) {
  World world(2);
  sockaddr_in to{};
  // The port of the world endpoint stands in the address blob as libfabric's sockaddr.
  std::memcpy(&to, world[1].endpoint->address().data() + 13, sizeof to);
  for (const char* text : {"GET / HTTP/1.0\r\n\r\n", "", "\x03\x00\x00"}) {
    const int stranger = socket(AF_INET, SOCK_STREAM, 0);
    ASSERT_EQ(connect(stranger, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    ASSERT_EQ(write(stranger, text, std::strlen(text)), static_cast<ssize_t>(std::strlen(text)));
    for (int i = 0; i < 50; ++i) world[1].poll();
    ::close(stranger);
    for (int i = 0; i < 50; ++i) world[1].poll();
  }
  const auto sent = pattern(5000, 1);
  std::vector<std::byte> into(5000);
  ASSERT_TRUE(world.receive(1, 0, 1, into, 1));
  ASSERT_TRUE(world.send(0, 1, 1, sent, 2));
  ASSERT_TRUE(world.until([&] { return world[1].has(1); }));
  EXPECT_EQ(into, sent);
}

}  // namespace
}  // namespace fabring

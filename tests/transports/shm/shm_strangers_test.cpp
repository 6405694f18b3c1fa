// Who may come in through a rank's socket, and what a peer that came in by the rules can do by writing what it likes.

#include <gmock/gmock.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <functional>
#include <optional>

#include "tests/support/few_addresses.hpp"
#include "tests/support/few_files.hpp"
#include "tests/support/refused_sockets.hpp"
#include "tests/transports/shm/shm_world.hpp"

namespace fabring::conformance {
namespace {

/// Whoever connects to a rank's socket.
struct Visitor {
  explicit Visitor(const std::string& address)
      : socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    connected = AbstractAddress::of(address.substr(4))->connect(socket.fd());
  }
  bool turned_away() const {
    char byte = 0;
    return ::recv(socket.fd(), &byte, 1, MSG_DONTWAIT) == 0;
  }
  Descriptor socket;
  bool connected = false;
};

TEST(ShmStrangers, AreTurnedAwayAndCountedAndDisturbNobody) {
  World world(shm_fabric(), 2);
  world.connect();
  const std::string address = world.at(0).address();
  auto memory = *shm::SharedMemory::create(shm::page);
  const std::uint64_t nonce = world.options(0).job_nonce;
  const auto size = shm::Pair::of_world(nullptr, 2).size();
  const int fd = memory.memfd();
  std::vector<Visitor> talkers;
  const auto visit = [&](const shm::Hello& hello, std::initializer_list<int> descriptors) {
    talkers.emplace_back(address);
    ASSERT_TRUE(talkers.back().connected);
    ASSERT_TRUE(shm::say(talkers.back().socket.fd(), hello, descriptors));
  };
  Visitor silent(address);
  ASSERT_TRUE(silent.connected);
  talkers.emplace_back(address);
  ASSERT_EQ(::send(talkers.back().socket.fd(), "GET / HTTP/1.1\r\n\r\n", 18, 0), 18);
  visit({1, nonce, size, shm::page, 1, 0}, {fd, fd, fd});                             // not our magic
  visit({shm::Hello::magic_number, nonce + 1, size, shm::page, 1, 0}, {fd, fd, fd});  // an earlier incarnation
  visit({shm::Hello::magic_number, nonce, size, shm::page, 7, 0}, {fd, fd, fd});      // no such rank
  visit({shm::Hello::magic_number, nonce, size, shm::page, 0, 0}, {fd, fd, fd});      // rank 0 itself
  visit({shm::Hello::magic_number, nonce, size, shm::page, 1, 0}, {fd});              // one descriptor
  visit({shm::Hello::magic_number, nonce, size, shm::page, 1, 0}, {fd, fd, fd});      // rank 1 is here already
  const auto all_turned_away = [&] {
    return std::ranges::all_of(talkers, [](const Visitor& visitor) { return visitor.turned_away(); });
  };
  EXPECT_TRUE(world.reach(all_turned_away, "strangers to be turned away"));
  EXPECT_GE(world.at(0).counters().strangers, talkers.size());
  exchange(world);
}

// There is room for so many visitors at a time, and whoever only comes keeps its place.
TEST(ShmStrangers, WhoStaySilentAreTurnedAwayWhenTheirTimeIsOver) {
  using namespace std::chrono_literals;
  EndpointOptions options;
  options.world_size = 2;
  const auto arena = *shm::Arena::create(shm::page);
  for (const std::chrono::milliseconds time_to_speak : {0ms, 600'000ms}) {
    const auto rank = *shm::Introductions::open(options, *arena, arena->memory().memfd(), time_to_speak);
    const Visitor silent(rank->address());
    ASSERT_TRUE(silent.connected);
    rank->poll([](Rank, shm::Acquaintance) {}, [](Rank, const Status&) {});
    EXPECT_EQ(silent.turned_away(), time_to_speak == 0ms);
    EXPECT_EQ(rank->strangers(), time_to_speak == 0ms ? 1u : 0u);
  }
}

// Every user of the host can read the names of its abstract sockets.
TEST(ShmStrangers, DoNotReadTheJobsNonceInTheNameOfASocket) {
  EndpointOptions options;
  options.world_size = 2;
  options.job_nonce = 0x0123456789abcdef;
  const auto endpoint = *shm::ShmEndpoint::open(options);
  EXPECT_THAT(endpoint->address(), testing::Not(testing::HasSubstr("0123456789abcdef")));
  EXPECT_THAT(endpoint->address(), testing::StartsWith("shm " + shm::Introductions::name_begin(options.job_nonce, 0)));
}

// The kernel says as whom a socket was connected, whatever its process is later.
TEST(ShmStrangers, OfAnotherUserAreTurnedAwayAFewAtATime) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  World world(shm_fabric(), 2);
  constexpr uid_t nobody = 65534;
  constexpr std::size_t many = 300;
  std::vector<Visitor> visitors;
  ASSERT_EQ(::seteuid(nobody), 0);
  for (std::size_t i = 0; i < many; ++i) visitors.emplace_back(world.at(0).address());
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_TRUE(std::ranges::all_of(visitors, &Visitor::connected));
  std::uint64_t before = 0;
  const auto all_turned_away = [&] {
    const std::uint64_t strangers = world.at(0).counters().strangers;
    EXPECT_LE(strangers - std::exchange(before, strangers), 64u) << "in one turn";
    return strangers == many;
  };
  for (int turns = 0; turns < 100'000 && !all_turned_away(); ++turns) {
    Completion completion;
    (void)world.at(0).poll({&completion, 1});
  }
  EXPECT_EQ(before, many);
  EXPECT_TRUE(std::ranges::all_of(visitors, &Visitor::turned_away));
  world.connect();
  exchange(world);
}

// Its name is free again once it has ended, and names can be read by everybody.
TEST(ShmStrangers, OfAnotherUserAreHandedNothingUnderTheNameOfARank) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  EndpointOptions options;
  options.self = 1;
  options.world_size = 2;
  options.job_nonce = 42;
  const auto rank = *shm::ShmEndpoint::open(options);
  const std::string name = shm::Introductions::name_begin(42, 0) + "x";
  const Descriptor stranger(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  ASSERT_EQ(::seteuid(65534), 0);  // the kernel says as whom it listens
  const bool listens = AbstractAddress::of(name)->bind(stranger.fd()) && ::listen(stranger.fd(), 1) == 0;
  ASSERT_EQ(::seteuid(0), 0);
  ASSERT_TRUE(listens);
  ASSERT_TRUE(rank->add_peer(0, "shm " + name).ok());
  Completion completion;
  for (int turns = 0; turns < 3; ++turns) (void)rank->poll({&completion, 1});
  const Status why = rank->peer_error(0);
  EXPECT_EQ(why.code(), ErrorCode::transport_error);
  EXPECT_THAT(why.message(), testing::HasSubstr("cannot share memory with rank 0: it runs as another user"));
  const Descriptor caller(::accept4(stranger.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  ASSERT_GE(caller.fd(), 0);
  char byte = 0;
  EXPECT_EQ(::recv(caller.fd(), &byte, 1, 0), 0) << "hung up without a word";
}

TEST(ShmIntroductions, TheSoftLimitOnFilesKeepsNobodyOut) {
  const tests::NoMoreFilesForNow none;
  World world(shm_fabric(), 2);
  Bytes into(100);
  const Bytes from = pattern(100, 1);
  std::optional<std::uint64_t> received, sent;
  const auto step = [&](Rank rank) {
    none.again();  // whatever the step before has raised
    world.poll(rank);
  };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!(received && sent && world.ending(*received) && world.ending(*sent))) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    step(1);
    step(0);
    if (!received) received = world.try_recv(1, 0, 7, into);
    if (!sent) sent = world.try_send(0, 1, 7, from);
  }
  EXPECT_DONE(world, *received);
  EXPECT_DONE(world, *sent);
  EXPECT_EQ(into, from);
}

// Of two ranks the higher one has called; then the lower one, in a child, reaches a limit of its own.
void reach_a_limit(const std::function<void()>& limit, const std::string& named) {
  World world(shm_fabric(), 2);
  world.poll(1);
  limit();
  world.poll(0);
  const Status why = world.at(0).error();
  EXPECT_THAT(why.message(), testing::HasSubstr(named));
  EXPECT_EQ(why.context().rank, -1);
  EXPECT_EQ(world.at(0).peer_error(1).message(), why.message());
  world.poll(1);
  EXPECT_TRUE(world.at(1).error().ok()) << world.at(1).error().message();
  EXPECT_EQ(world.at(1).peer_error(0).code(), ErrorCode::peer_lost) << world.at(1).peer_error(0).message();
}

void end_child() { ::_exit(testing::Test::HasFailure() ? 1 : 0); }

TEST(ShmIntroductions, WithoutFilesThisRankIsAtFaultAndNoPeer) {
  EXPECT_EXIT((reach_a_limit([] { tests::no_more_files(); }, "ulimit -n"), end_child()), testing::ExitedWithCode(0),
              "");
}

TEST(ShmIntroductions, WithoutFilesForWhatIsHandedOverThisRankIsAtFaultAndNoPeer) {
  const auto two_more = [] {  // the visitor's own, and one of three
    const Descriptor next(::dup(0));
    tests::no_more_files(static_cast<rlim_t>(next.fd()) + 2);
  };
  EXPECT_EXIT((reach_a_limit(two_more, "did not arrive"), end_child()), testing::ExitedWithCode(0), "");
}

TEST(ShmIntroductions, WithoutAddressesThisRankIsAtFaultAndNoPeer) {
  if (tests::needs_addresses_of_its_own) GTEST_SKIP() << "a sanitizer ends where addresses are short";
  const auto limit = [] { tests::leave(tests::Few::addresses, rlim_t{1} << 20); };
  EXPECT_EXIT((reach_a_limit(limit, "ulimit -v"), end_child()), testing::ExitedWithCode(0), "");
}

// A rank that sleeps on what is not watched would never be woken.
TEST(ShmIntroductions, WithoutRoomToWatchThisRankIsAtFaultAndNoPeer) {
  const auto fill = [] { tests::refuse_calls(SYS_epoll_ctl, 1, EPOLL_CTL_ADD, ENOSPC); };
  const auto meet = [&] {
    World world(shm_fabric(), 2);
    world.poll(1);
    fill();
    world.poll(0);
    const Status why = world.at(0).error();
    EXPECT_THAT(why.message(), testing::HasSubstr("max_user_watches"));
    EXPECT_EQ(why.context().rank, -1);
    EXPECT_EQ(world.at(0).peer_error(1).message(), why.message());
  };
  EXPECT_EXIT((meet(), end_child()), testing::ExitedWithCode(0), "");
  const auto open = [&] {
    EndpointOptions options;
    options.world_size = 2;
    fill();
    const auto opened = shm::ShmEndpoint::open(options);
    EXPECT_THAT(opened ? "opened" : opened.error().message(), testing::HasSubstr("max_user_watches"));
  };
  EXPECT_EXIT((open(), end_child()), testing::ExitedWithCode(0), "");
}

// ---- a peer gone mad ----------------------------------------------------------------------------------------------

/// Rank 1 of 2, introduced by the rules, which then writes what it likes into the memory of the pair.
class MadPeer {
 public:
  MadPeer() {
    EndpointOptions options;
    options.world_size = 2;
    options.job_nonce = 42;
    victim = *shm::ShmEndpoint::open(options);
    memory = *shm::SharedMemory::create(shm::Pair::of_world(nullptr, 2).size());
    arena = *shm::Arena::create(shm::page);
    pair = shm::Pair::of_world(memory.data(), 2);
    caller = std::make_unique<Visitor>(victim->address());
    const shm::Hello hello{shm::Hello::magic_number, 42, memory.size(), arena->memory().size(), 1, 0};
    EXPECT_TRUE(shm::say(caller->socket.fd(), hello, {memory.memfd(), arena->memory().memfd(), memory.memfd()}));
    EXPECT_TRUE(victim->add_peer(1, "shm " + shm::Introductions::name_begin(42, 1) + "x").ok());
    Completion completion;
    for (int i = 0; i < 3; ++i) (void)victim->poll({&completion, 1});
    EXPECT_EQ(victim->post_recv(1, 5, into, 77), Post::accepted);
  }

  void write(std::uint32_t kind, Slot slot, std::uint32_t bytes, std::uint64_t offset = 0) {
    shm::Channel& channel = pair.channel(false);  // from the higher rank
    shm::Entry& entry = channel.entries[written_ % shm::entry_count];
    entry.kind = static_cast<shm::EntryKind>(kind);
    entry.slot = slot;
    entry.bytes = bytes;
    entry.offset = offset;
    entry.turn.store(++written_);
  }

  std::optional<Completion> outcome() {
    Completion completion;
    for (int i = 0; i < 3; ++i)
      if (victim->poll({&completion, 1}) == 1) return completion;
    return {};
  }

  std::unique_ptr<shm::ShmEndpoint> victim;
  shm::SharedMemory memory;
  std::shared_ptr<shm::Arena> arena;
  shm::Pair pair;
  std::unique_ptr<Visitor> caller;
  Bytes into = Bytes(1000);

 private:
  std::uint32_t written_ = 0;
};

TEST(ShmHostilePeer, IsHeardWhileItKeepsTheRules) {
  MadPeer mad;
  const auto part = static_cast<std::uint32_t>(shm::EntryKind::part),
             last = static_cast<std::uint32_t>(shm::EntryKind::last);
  mad.write(part, 5, 600);
  mad.write(last, 5, 400);
  const auto outcome = mad.outcome();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->outcome, Outcome::done);
  EXPECT_EQ(outcome->bytes, 1000u);
}

TEST(ShmHostilePeer, LosesTheConnectionForEveryNonsense) {
  constexpr std::uint32_t part = 1, last = 2, landed = 3;
  using Entries = std::vector<std::array<std::uint32_t, 3>>;
  for (const Entries& entries : std::vector<Entries>{
           {{last, 6, 10}},                 // nobody waits there
           {{last, 5, 1001}},               // longer than the receive
           {{last, 5, 0xffffffff}},         // longer than anything
           {{part, 5, 999}, {last, 5, 2}},  // in all longer
           {{part, 5, 10}, {last, 6, 10}},  // another message inside this one
           {{landed, 5, 10}},               // no landing was offered
           {{part, 5, 10}, {landed, 5, 10}},
           {{0, 5, 10}},
           {{99, 5, 10}},
       }) {
    MadPeer mad;
    for (const auto& [kind, slot, bytes] : entries) mad.write(kind, slot, bytes);
    const auto outcome = mad.outcome();
    ASSERT_TRUE(outcome) << entries[0][0];
    EXPECT_EQ(outcome->context, 77u);
    EXPECT_EQ(outcome->outcome, Outcome::lost);
    EXPECT_EQ(mad.victim->peer_error(1).code(), ErrorCode::peer_lost);
  }
}

TEST(ShmHostilePeer, LosesTheConnectionForASmallMessageThatCannotBe) {
  const shm::FastRing ring = shm::FastRing::of_world(2);
  for (const std::uint32_t bytes : {ring.most_bytes() + 1, ring.bytes(), 0xfffffffeu}) {
    MadPeer mad;
    shm::FastLine& first = *mad.pair.fast_lines(false);
    first.bytes = bytes;
    first.stamp.store(shm::FastRing::stamp_of(0));
    FastMessage message;
    EXPECT_FALSE(mad.victim->fast_messages()->fast_peer(1)->front(message));
    const auto outcome = mad.outcome();
    ASSERT_TRUE(outcome);
    EXPECT_EQ(outcome->outcome, Outcome::lost);
  }
}

// A ring that says "go on at the beginning" for ever, and one whose reader says that it has read what was never sent.
TEST(ShmHostilePeer, CannotHoldUpWhoReadsOrWritesSmallMessages) {
  MadPeer mad;
  FastPeer& victim = *mad.victim->fast_messages()->fast_peer(1);
  shm::FastLine* const lines = mad.pair.fast_lines(false);
  for (std::uint32_t round = 0; round < 4; ++round) {
    lines[0].bytes = shm::FastRing::skipped;
    lines[0].stamp.store(shm::FastRing::stamp_of(round * mad.pair.fast.lines));
    FastMessage message;
    EXPECT_FALSE(victim.front(message));
  }
  mad.pair.channel(true).fast_taken.store(12345);
  const std::uint32_t too_many = 12345 + mad.pair.fast.lines + 1;
  std::uint32_t accepted = 0;
  while (accepted < too_many && victim.put(head_of(accepted), {})) ++accepted;
  EXPECT_LT(accepted, too_many) << "it must read as full sooner or later";
}

// Only a ticket may be refused: who lent anything else would look for what it knows of tickets.
TEST(ShmHostilePeer, LosesTheConnectionForRefusingALoanThatIsNoTicket) {
  MadPeer mad;
  const auto source = mad.victim->mapped_memory();
  ASSERT_NE(source, nullptr);
  std::byte* const block = source->allocate(1 << 20);
  ASSERT_NE(block, nullptr);
  ASSERT_EQ(mad.victim->post_send(1, 9, {block, 1 << 20}, 78), Post::lent);
  shm::Channel& channel = mad.pair.channel(true);
  ASSERT_EQ(channel.entries[0].kind, shm::EntryKind::lent);
  channel.refused[1].store(1);
  channel.returned[1].store(1);
  std::optional<Completion> sent = mad.outcome();
  for (int i = 0; i < 3 && sent && sent->context != 78; ++i) sent = mad.outcome();
  ASSERT_TRUE(sent && sent->context == 78);
  EXPECT_EQ(sent->outcome, Outcome::lost);
  EXPECT_EQ(mad.victim->peer_error(1).code(), ErrorCode::peer_lost);
  EXPECT_NE(mad.victim->peer_error(1).message().find("rank 1: it wrote there what no rank writes"), std::string::npos)
      << mad.victim->peer_error(1).message();
  source->release(block, 1 << 20);
}

// A ticket is handed out as a pointer to what was copied of it: a later one in its place would be read in its stead, or
// leave the pointer to memory that is freed.
TEST(ShmHostilePeer, LosesTheConnectionForALoanInThePlaceOfOneThatIsNotBack) {
  constexpr auto last = static_cast<std::uint32_t>(shm::EntryKind::last),
                 ticket = static_cast<std::uint32_t>(shm::EntryKind::ticket),
                 lent = static_cast<std::uint32_t>(shm::EntryKind::lent);
  constexpr Slot earlier = 100, later = 101, others = 200;
  for (const auto& [kind, given_back] : {std::pair{ticket, false}, {ticket, true}, {lent, false}, {lent, true}}) {
    MadPeer mad;
    const Bytes text = pattern(16, 3);
    std::ranges::copy(text, mad.pair.staged(false));
    Bytes first_into(8), second_into(1000), nothing(1);
    ASSERT_EQ(mad.victim->post_recv_or_ticket(1, earlier, first_into, earlier), Post::accepted);
    ASSERT_EQ(mad.victim->post_recv_or_ticket(1, later, second_into, later), Post::accepted);
    mad.write(ticket, earlier, 16);
    const auto first = mad.outcome();
    ASSERT_TRUE(first && first->ticket);
    if (given_back) {
      ASSERT_TRUE(mad.victim->give_back(1, first->loan));
    }
    for (Slot slot = others; slot < others + shm::loan_count - 1; ++slot) {
      ASSERT_EQ(mad.victim->post_recv(1, slot, nothing, slot), Post::accepted);
      mad.write(last, slot, 0);
    }
    mad.write(kind, later, 1000, shm::page);
    std::optional<Completion> second = mad.outcome();
    while (second && second->context != later) second = mad.outcome();
    ASSERT_TRUE(second);
    EXPECT_EQ(second->outcome, given_back ? Outcome::done : Outcome::lost) << kind;
    EXPECT_EQ(mad.victim->peer_error(1).ok(), given_back) << kind;
    if (!given_back) {
      EXPECT_TRUE(std::ranges::equal(std::span(first->lent, 16), text));
    }
  }
}

TEST(ShmHostilePeer, CannotMakeASenderWriteOutsideItsArena) {
  MadPeer mad;
  shm::Landing& landing = mad.pair.channel(true).landings[9];
  for (const auto& [offset, bytes] :
       std::vector<std::pair<std::uint64_t, std::uint64_t>>{{0, 1 << 20},
                                                            {1, 100},
                                                            {mad.arena->memory().size() - 10, 100},
                                                            {~std::uint64_t{0} - 50, 1 << 20},
                                                            {std::uint64_t{1} << 40, 1 << 20}}) {
    landing.offset = offset;
    landing.bytes = bytes;
    landing.key.store(10);
    const Bytes from = pattern(100, 1);
    ASSERT_EQ(mad.victim->post_send(1, 9, from, 1), Post::accepted);
    EXPECT_TRUE(
        all_are({mad.arena->memory().data() + shm::page, mad.arena->memory().size() - shm::page}, std::byte{0}));
  }
  EXPECT_EQ(mad.pair.channel(true).entries[0].kind, shm::EntryKind::last) << "sent the other way instead";
}

}  // namespace
}  // namespace fabring::conformance

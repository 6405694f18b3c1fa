#include "transports/shm/introductions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <random>

#include "runtime/base/file_limit.hpp"
#include "runtime/base/job_name.hpp"

namespace fabring::shm {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t most_name = 100;     // fits an abstract address
constexpr std::size_t most_visitors = 64;  // who have not been answered yet; also who are let in at one turn
constexpr auto time_for_descriptors = std::chrono::seconds(60);  // until the kernel takes them
constexpr const char* no_more_files =
    "what it handed over did not arrive: this process may open no more files (ulimit -n)";
constexpr const char* too_many_on_their_way =
    "the kernel hands over no more descriptors for this user, who has more on their way than a process may open files "
    "(ulimit -n)";

Status cannot_share(Rank peer, std::string_view why, ErrorCode code = ErrorCode::transport_error) {
  return {code, fmt::format("cannot share memory with rank {}: {}", peer, why)};
}

Descriptor unix_socket() {
  return Descriptor::not_for_children(
      open_within_hard_limit([] { return ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }));
}

}  // namespace

Introductions::Introductions(const EndpointOptions& options, const Arena& arena, int bell,
                             std::chrono::milliseconds time_to_speak)
    : options_(options),
      arena_(arena),
      bell_(bell),
      time_to_speak_(time_to_speak),
      pair_bytes_(Pair::of_world(nullptr, options.world_size).size()),
      neighbours_(static_cast<std::size_t>(options.world_size)) {}

Result<std::unique_ptr<Introductions>> Introductions::open(const EndpointOptions& options, const Arena& arena, int bell,
                                                           std::chrono::milliseconds time_to_speak) {
  std::unique_ptr<Introductions> made(new Introductions(options, arena, bell, time_to_speak));
  std::random_device random;  // two endpoints of one rank, one after the other, must not be taken for each other
  made->name_ = fmt::format("{}{:08x}{:08x}", name_begin(options.job_nonce, options.self), random(), random());
  made->listener_ = unix_socket();
  const int fd = made->listener_.fd();
  if (fd < 0 || !AbstractAddress::of(made->name_)->bind(fd) || ::listen(fd, 1024) != 0)
    return Status(ErrorCode::unavailable, fmt::format("cannot open an abstract unix socket: {}{}", std::strerror(errno),
                                                      remedy_for_refused_unix(errno)));
  return made;
}

std::string Introductions::name_begin(std::uint64_t job_nonce, Rank rank) {
  return fmt::format("fabring-shm-{}-{}-", job_name("fabring shm", job_nonce), rank);
}

Status Introductions::add(Rank peer, std::string_view address) {
  const bool readable = address.starts_with("shm fabring-shm-") && address.size() <= 4 + most_name;
  if (peer < 0 || peer >= options_.world_size || peer == options_.self || !readable)
    return Status(ErrorCode::invalid_argument, fmt::format("not an shm address of rank {}", peer));
  Neighbour& neighbour = neighbours_[static_cast<std::size_t>(peer)];
  const std::string name(address.substr(4));
  if (!name.starts_with(name_begin(options_.job_nonce, peer)))
    return Status(ErrorCode::invalid_argument, fmt::format("not an shm address of rank {} of this job", peer));
  if (neighbour.stage != Stage::unknown) return {};
  neighbour.name = name;
  neighbour.stage = peer < options_.self ? Stage::to_call : Stage::awaited;
  ++expected_;
  return {};
}

void Introductions::over(Neighbour& neighbour) {
  if (neighbour.stage != Stage::over && neighbour.stage != Stage::unknown) --expected_;
  neighbour.stage = Stage::over;
  neighbour.is_visitor = false;
  neighbour.socket.hang_up();
  neighbour.pair = SharedMemory();
}

void Introductions::forget(Rank peer) { over(neighbours_[static_cast<std::size_t>(peer)]); }

void Introductions::close() {
  listener_.hang_up();
  for (Visitor& visitor : visitors_) visitor.socket.hang_up();
  visitors_.clear();
  for (Neighbour& neighbour : neighbours_) over(neighbour);
}

void Introductions::poll(const Met& met, const Failed& failed) {
  if (listener_.fd() < 0) return;
  accept_visitors();
  std::erase_if(visitors_, [&](Visitor& visitor) { return hear(visitor, met, failed); });
  if (expected_ == 0) return;
  bool takes_descriptors = true;
  for (Rank peer = 0; peer < options_.self; ++peer) {
    Neighbour& neighbour = neighbours_[static_cast<std::size_t>(peer)];
    if (neighbour.stage == Stage::to_call) call(peer, neighbour, failed);
    if (neighbour.stage == Stage::connected && takes_descriptors)
      takes_descriptors = hand_memory(peer, neighbour, failed);
    if (neighbour.stage == Stage::called) hear_answer(peer, neighbour, met, failed);
  }
}

// Not by the peer's fault, whoever it is: it may be well with all others.
void Introductions::fail_here(Rank peer, std::string_view why, ErrorCode code) {
  if (error_.ok()) error_ = cannot_share(peer, why, code);
}

// Whoever comes, and however fast: the thread that moves all data has other things to do than to turn people away.
void Introductions::accept_visitors() {
  for (std::size_t came = 0; came < most_visitors && visitors_.size() < most_visitors; ++came) {
    Descriptor socket = Descriptor::not_for_children(open_within_hard_limit(
        [this] { return ::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); }));
    if (socket.fd() < 0 && errno == EMFILE) {  // whoever it is waits for an answer that will not come
      for (Rank peer = options_.self + 1; peer < options_.world_size; ++peer) {
        Neighbour& neighbour = neighbours_[static_cast<std::size_t>(peer)];
        if (neighbour.stage != Stage::awaited || neighbour.is_visitor) continue;
        fail_here(peer, "this process may open no more files (ulimit -n), so nobody can call it");
      }
    }
    if (socket.fd() < 0) return;
    if (!same_user(socket.fd())) {
      ++strangers_;
      socket.hang_up();
      continue;
    }
    visitors_.push_back({std::move(socket), Clock::now() + time_to_speak_});
  }
}

bool Introductions::hear(Visitor& visitor, const Met& met, const Failed& failed) {
  if (!visitor.rank) {
    Hello hello;
    std::vector<Descriptor> descriptors;
    const Heard heard = shm::hear(visitor.socket.fd(), hello, descriptors);
    if (heard == Heard::nothing_yet && Clock::now() < visitor.deadline) return false;
    const bool spoke = heard == Heard::hello || heard == Heard::incomplete;
    if (!spoke || !welcome(hello, heard, descriptors, visitor, failed)) ++strangers_;
  }
  if (visitor.rank && !answer(visitor, met)) return false;
  visitor.socket.hang_up();  // unless it is the lifeline of a pair now
  return true;
}

bool Introductions::welcome(const Hello& hello, Heard heard, std::vector<Descriptor>& descriptors, Visitor& visitor,
                            const Failed& failed) {
  if (hello.nonce != options_.job_nonce || hello.to != options_.self || hello.from <= options_.self ||
      hello.from >= options_.world_size || hello.pair_bytes != pair_bytes_ || hello.arena_bytes < page)
    return false;
  Neighbour& neighbour = neighbours_[static_cast<std::size_t>(hello.from)];
  if (neighbour.stage == Stage::over || neighbour.is_visitor) return false;
  if (heard == Heard::incomplete) {
    fail_here(hello.from, no_more_files);
    return true;
  }
  if (descriptors.size() != 3) return false;
  auto pair = SharedMemory::adopt(std::move(descriptors[0]), pair_bytes_);
  auto arena = SharedMemory::adopt(std::move(descriptors[1]), hello.arena_bytes);
  if (!pair || !arena) {
    not_adopted(hello.from, pair ? arena.error() : pair.error(), failed);
    return true;
  }
  neighbour.is_visitor = true;
  visitor.rank = hello.from;
  visitor.handed = {std::move(*pair), std::move(*arena), std::move(descriptors[2]), {}};
  visitor.deadline = Clock::now() + time_for_descriptors;
  return true;
}

void Introductions::not_adopted(Rank peer, const Status& why, const Failed& failed) {
  if (why.code() != ErrorCode::transport_error) return fail_here(peer, why.message(), why.code());
  Neighbour& neighbour = neighbours_[static_cast<std::size_t>(peer)];
  if (neighbour.stage == Stage::unknown) return;  // nobody here knows it yet; it is told by the hanging up
  over(neighbour);
  failed(peer, cannot_share(peer, why.message()));
}

bool Introductions::answer(Visitor& visitor, const Met& met) {
  const Rank rank = *visitor.rank;
  Neighbour& neighbour = neighbours_[static_cast<std::size_t>(rank)];
  if (neighbour.stage == Stage::over) return true;  // forgotten meanwhile
  const Hello hello{Hello::magic_number, options_.job_nonce, pair_bytes_, arena_.memory().size(), options_.self, rank};
  if (!say(visitor.socket.fd(), hello, {arena_.memory().memfd(), bell_})) {
    const bool later = DescriptorMessage::may_be_said_later(errno);
    if (later && Clock::now() < visitor.deadline) return false;
    neighbour.is_visitor = false;
    if (later && neighbour.stage == Stage::awaited)
      fail_here(rank, too_many_on_their_way);
    else
      ++strangers_;  // it has hung up; the rank itself may still come
    return true;
  }
  if (neighbour.stage == Stage::unknown) {  // it was faster than our add()
    neighbour.stage = Stage::awaited;
    ++expected_;
  }
  over(neighbour);
  visitor.handed.lifeline = std::move(visitor.socket);
  met(rank, std::move(visitor.handed));
  return true;
}

void Introductions::call(Rank peer, Neighbour& neighbour, const Failed& failed) {
  const auto fail = [&](const std::string& what, int error) {
    over(neighbour);
    failed(peer, cannot_share(peer, fmt::format("{}: {}", what, std::strerror(error)),
                              error == ECONNREFUSED ? ErrorCode::peer_lost : ErrorCode::transport_error));
  };
  if (neighbour.socket.fd() < 0) neighbour.socket = unix_socket();
  if (neighbour.socket.fd() < 0)
    return fail_here(
        peer, fmt::format("a unix socket: {}{}", std::strerror(errno), errno == EMFILE ? " (see ulimit -n)" : ""));
  if (!AbstractAddress::of(neighbour.name)->connect(neighbour.socket.fd())) {
    if (errno == EAGAIN || errno == EINTR) return;  // its queue is full; at the next turn
    return fail("connecting to its unix socket", errno);
  }
  if (!same_user(neighbour.socket.fd()))
    return fail("it runs as another user (use FABRING_TRANSPORT=fabric,tcp)", EPERM);
  auto pair = SharedMemory::create(pair_bytes_);
  if (!pair) return fail_here(peer, pair.error().message(), pair.error().code());
  neighbour.pair = std::move(*pair);
  neighbour.stage = Stage::connected;
  neighbour.deadline = Clock::now() + time_for_descriptors;
}

bool Introductions::hand_memory(Rank peer, Neighbour& neighbour, const Failed& failed) {
  const Hello hello{Hello::magic_number, options_.job_nonce, pair_bytes_, arena_.memory().size(), options_.self, peer};
  if (say(neighbour.socket.fd(), hello, {neighbour.pair.memfd(), arena_.memory().memfd(), bell_})) {
    neighbour.stage = Stage::called;
    return true;
  }
  const int error = errno;
  const bool later = DescriptorMessage::may_be_said_later(error);
  if (later && Clock::now() < neighbour.deadline) return false;
  if (later) {
    fail_here(peer, too_many_on_their_way);
    return true;
  }
  over(neighbour);
  failed(peer, cannot_share(peer, fmt::format("handing it the memory: {}", std::strerror(error)),
                            error == EPIPE || error == ECONNRESET ? ErrorCode::peer_lost : ErrorCode::transport_error));
  return true;
}

void Introductions::hear_answer(Rank peer, Neighbour& neighbour, const Met& met, const Failed& failed) {
  Hello hello;
  std::vector<Descriptor> descriptors;
  const Heard heard = shm::hear(neighbour.socket.fd(), hello, descriptors);
  if (heard == Heard::nothing_yet) return;
  const bool spoke = heard == Heard::hello || heard == Heard::incomplete;
  const bool known = spoke && hello.nonce == options_.job_nonce && hello.from == peer && hello.to == options_.self &&
                     hello.arena_bytes >= page;
  if (heard == Heard::ended) {  // no more is known of it: what it says itself goes before
    over(neighbour);
    return failed(
        peer,
        cannot_share(peer,
                     "it hung up: it ended, or its limit on open files (ulimit -n) or addresses (ulimit -v) is reached",
                     ErrorCode::peer_lost));
  }
  if (known && heard == Heard::incomplete) return fail_here(peer, no_more_files);
  if (!known || descriptors.size() != 2)
    return not_adopted(peer, {ErrorCode::transport_error, "it answered with something else"}, failed);
  auto arena = SharedMemory::adopt(std::move(descriptors[0]), hello.arena_bytes);
  if (!arena) return not_adopted(peer, arena.error(), failed);
  Acquaintance acquaintance{std::move(neighbour.pair), std::move(*arena), std::move(descriptors[1]),
                            std::move(neighbour.socket)};
  over(neighbour);
  met(peer, std::move(acquaintance));
}

}  // namespace fabring::shm

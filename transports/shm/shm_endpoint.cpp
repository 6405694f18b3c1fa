#include "transports/shm/shm_endpoint.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/base/file_limit.hpp"
#include "runtime/base/settings.hpp"

namespace fabring::shm {
namespace {

constexpr std::uint64_t the_bell = ~std::uint64_t{0};
constexpr std::uint64_t the_listener = the_bell - 1;
constexpr std::uint32_t polls_per_look = 32;
constexpr auto look_interval = std::chrono::milliseconds(1);
constexpr std::size_t addresses_for_arenas = std::size_t{32} << 40;  // of the 128 TiB that a process has

// What the program may have at most: the memory of this host, unless it says less. Every rank of the host maps that
// much of each other, but as addresses only.
std::size_t mapped_budget(const EndpointOptions& options) {
  if (options.config.mapped_bytes != 0) return options.config.mapped_bytes;
  for (const auto limited : {RLIMIT_AS, RLIMIT_FSIZE}) {
    rlimit limit{};
    if (::getrlimit(limited, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) return 0;
  }
  const long pages = ::sysconf(_SC_PHYS_PAGES), cores = ::sysconf(_SC_NPROCESSORS_CONF);
  const auto ranks = std::min<std::size_t>(static_cast<std::size_t>(options.world_size),
                                           2 * static_cast<std::size_t>(std::max(cores, 1L)));
  const std::size_t memory = static_cast<std::size_t>(std::max(pages, 0L)) * system_page();
  return std::min(memory, addresses_for_arenas / std::max<std::size_t>(ranks, 1));
}

}  // namespace

Result<std::unique_ptr<ShmEndpoint>> ShmEndpoint::open(const EndpointOptions& options) {
  // Twice the budget: blocks of several sizes, and what may be borrowed beyond it. Pages that nobody touches cost
  // nothing.
  auto arena = Arena::create(2 * scratch_budget(options.config), mapped_budget(options));
  if (!arena) return arena.error();
  std::unique_ptr<ShmEndpoint> made(new ShmEndpoint(options, std::move(*arena)));
  made->bell_ = Descriptor(open_within_hard_limit([] { return ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }));
  made->watched_ = Descriptor(open_within_hard_limit([] { return ::epoll_create1(EPOLL_CLOEXEC); }));
  if (made->bell_.fd() < 0 || made->watched_.fd() < 0)
    return Status(ErrorCode::unavailable, "shared memory: no file descriptors left (see ulimit -n)");
  auto introductions = Introductions::open(options, *made->arena_, made->bell_.fd());
  if (!introductions) return introductions.error();
  made->introductions_ = std::move(*introductions);
  FABRING_TRY(made->watch(made->bell_.fd(), the_bell));
  FABRING_TRY(made->watch(made->introductions_->listener(), the_listener));
  return made;
}

ShmEndpoint::ShmEndpoint(EndpointOptions options, std::shared_ptr<Arena> arena)
    : options_(std::move(options)),
      arena_(std::move(arena)),
      mapped_(arena_->mapped_limit() > 0 ? std::make_shared<MappedSource>(arena_) : nullptr),
      copies_(arena_),
      fast_copies_(arena_, std::max(CommonCopies::most, static_cast<std::size_t>(options_.world_size))),
      peers_(static_cast<std::size_t>(options_.world_size)) {}

ShmEndpoint::~ShmEndpoint() { close(); }

// What is not watched is never heard: a rank would sleep through its bell, or through the end of another.
Status ShmEndpoint::watch(int fd, std::uint64_t what) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.u64 = what;
  if (::epoll_ctl(watched_.fd(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
  const int error = errno;
  return {ErrorCode::unavailable, fmt::format("the kernel watches no more descriptors: {}{}", std::strerror(error),
                                              error == ENOSPC ? " (see /proc/sys/fs/epoll/max_user_watches)" : "")};
}

// A closed socket of which a child of fork() has a copy would stay among them, and end every sleep at once.
void ShmEndpoint::unwatch(int fd) { (void)::epoll_ctl(watched_.fd(), EPOLL_CTL_DEL, fd, nullptr); }

Status ShmEndpoint::add_peer(Rank peer, std::string_view address) {
  if (Status added = introductions_->add(peer, address); !added.ok()) return added;
  if (!peers_[static_cast<std::size_t>(peer)]) make_near(peer);
  return {};
}

void ShmEndpoint::make_near(Rank rank) {
  auto& peer = peers_[static_cast<std::size_t>(rank)];
  peer = std::make_unique<Peer>(options_.self, rank, options_.world_size, *arena_, fast_copies_, ledger_, written_to_,
                                [this](int lifeline) { unwatch(lifeline); });
  near_.push_back(peer.get());
  for (Peer* each : near_) each->only_one(near_.size() == 1);
}

Post ShmEndpoint::post_send(Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t context) {
  return peer_at(peer).post_send(slot, from, context, false);
}

Post ShmEndpoint::post_readable_send(Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t context) {
  return peer_at(peer).post_send(slot, from, context, true);
}

// One copy for several peers is less to write than a part of each one's ring for all of it. What lies in mapped memory
// needs none: it is lent.
void ShmEndpoint::choose_ways(std::span<Ahead> to, std::span<const std::byte> message) {
  copy_.reset();
  const auto is_near = [this](const Ahead& each) { return peers_[static_cast<std::size_t>(each.peer)] != nullptr; };
  std::size_t without = 0;
  for (Ahead& each : to) {
    each.way = Ahead::Way::none;
    if (!is_near(each)) continue;
    if (peer_at(each.peer).has_landing_for(each.slot, message))
      each.way = Ahead::Way::landing;
    else
      ++without;
  }
  if (without < 2 || arena_->mapped_offset_of(message)) return;
  copy_ = copies_.take(message.size());
  if (!copy_) return;
  for (Ahead& each : to)
    if (!each.reached() && is_near(each) && peer_at(each.peer).takes_copies()) each.way = Ahead::Way::common;
}

void ShmEndpoint::write_ahead(std::span<Ahead> to, std::span<const std::byte> message, std::size_t begin,
                              std::size_t end) {
  if (begin == 0) choose_ways(to, message);
  if (copy_) stores_of_copies_.copy(copy_->at + begin, message.data() + begin, end - begin);
  for (const Ahead& each : to)
    if (each.way == Ahead::Way::landing) peer_at(each.peer).write_to_landing(each.slot, message, begin, end);
  if (end < message.size()) return;
  for (const Ahead& each : to)
    if (each.way == Ahead::Way::common) peer_at(each.peer).lend_copy(each.slot, copy_);
  copy_.reset();
}

Post ShmEndpoint::post_recv(Rank peer, Slot slot, std::span<std::byte> into, std::uint64_t context) {
  return peer_at(peer).post_recv({.slot = slot, .into = into.data(), .capacity = into.size(), .context = context});
}

Post ShmEndpoint::post_cold_recv(Rank peer, Slot slot, std::span<std::byte> into, std::uint64_t context) {
  return peer_at(peer).post_recv(
      {.slot = slot, .into = into.data(), .capacity = into.size(), .context = context, .cold = true});
}

Post ShmEndpoint::post_borrowing_recv(Rank peer, Slot slot, std::span<std::byte> into, std::uint64_t context) {
  return peer_at(peer).post_recv(
      {.slot = slot, .into = into.data(), .capacity = into.size(), .context = context, .borrows = true});
}

Post ShmEndpoint::post_recv_or_ticket(Rank peer, Slot slot, std::span<std::byte> into, std::uint64_t context) {
  return peer_at(peer).post_recv(
      {.slot = slot, .into = into.data(), .capacity = into.size(), .context = context, .takes_ticket = true});
}

void ShmEndpoint::deliver() {
  for (Peer* peer : written_to_) peer->deliver();
  written_to_.clear();
}

std::size_t ShmEndpoint::poll(std::span<Completion> out) {
  if (!closed_) {
    if (introductions_->expecting()) introduce();
    for (Peer* peer : near_) peer->step();
    if (++polls_ % polls_per_look == 0) {
      const auto now = std::chrono::steady_clock::now();
      if (now >= next_look_) {
        next_look_ = now + look_interval;
        look_around();
      }
    }
  }
  return ledger_.hand_out(out);
}

void ShmEndpoint::introduce() {
  introductions_->poll(
      [this](Rank rank, Acquaintance acquaintance) {
        // It may know us before we are told of it.
        if (!peers_[static_cast<std::size_t>(rank)]) make_near(rank);
        Peer& peer = peer_at(rank);
        peer.meet(std::move(acquaintance));
        if (peer.lifeline() < 0) return;
        if (const Status watched = watch(peer.lifeline(), static_cast<std::uint64_t>(rank)); !watched.ok())
          introductions_->fail_here(rank, watched.message(), watched.code());
      },
      [this](Rank rank, const Status& why) { peer_at(rank).fail(why); });
  if (const Status& why = error(); !why.ok()) fail(why);
}

// By no fault of a peer.
void ShmEndpoint::fail(const Status& why) {
  unwatch(introductions_->listener());
  introductions_->close();
  for (Peer* peer : near_) peer->fail(why);
}

void ShmEndpoint::look_around() {
  if (introductions_->has_visitors()) introduce();
  std::array<epoll_event, 16> events;
  const int count = ::epoll_wait(watched_.fd(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t what = events[static_cast<std::size_t>(i)].data.u64;
    if (what == the_bell) continue;  // for wait() to take
    if (what == the_listener) {
      introduce();
    } else {
      peer_at(static_cast<Rank>(what)).on_lifeline();
    }
  }
}

bool ShmEndpoint::arm() {
  if (ledger_.size() > 0) return false;
  if (closed_) return true;  // nothing will come any more
  arena_->header().sleeping.store(1, std::memory_order_relaxed);
  for (Peer* peer : near_) peer->sleeps(true);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // pairs with the one in Peer::ring_if_asleep()
  const bool quiet = std::all_of(near_.begin(), near_.end(), [](Peer* peer) { return peer->idle(); });
  if (!quiet) disarm();
  return quiet;
}

void ShmEndpoint::disarm() {
  arena_->header().sleeping.store(0, std::memory_order_relaxed);
  for (Peer* peer : near_) peer->sleeps(false);
  next_look_ = {};  // whatever ended the sleep may be a lifeline
  polls_ = polls_per_look - 1;
}

void ShmEndpoint::wait(std::chrono::microseconds limit) {
  if (limit.count() <= 0 || !arm()) return;
  if (introductions_->expecting() || introductions_->has_visitors())
    limit = std::min(limit, std::chrono::microseconds(look_interval));
  pollfd watched{watched_.fd(), POLLIN, 0};
  const timespec time{static_cast<time_t>(limit.count() / 1'000'000),
                      static_cast<long>(limit.count() % 1'000'000 * 1000)};
  (void)::ppoll(&watched, 1, &time, nullptr);
  std::uint64_t rings = 0;
  (void)!::read(bell_.fd(), &rings, sizeof rings);
  if (!closed_) disarm();
}

void ShmEndpoint::wake() {
  const std::uint64_t one = 1;
  (void)!::write(bell_.fd(), &one, sizeof one);
}

Status ShmEndpoint::peer_error(Rank peer) const { return peer_at(peer).error(); }

void ShmEndpoint::disconnect(Rank peer) {
  introductions_->forget(peer);
  peer_at(peer).drop();
}

void ShmEndpoint::finish_sending() {
  for (Peer* peer : near_) peer->finish_sending();
}

void ShmEndpoint::close() {
  if (std::exchange(closed_, true)) return;
  if (!maker_.is_this_one()) return;  // a child of fork() ends nothing of its parent's
  if (introductions_) {               // else it could not be opened
    unwatch(introductions_->listener());
    introductions_->close();
  }
  for (Peer* peer : near_) peer->drop();
}

EndpointCounters ShmEndpoint::counters() const {
  EndpointCounters counters = ledger_.counters;
  counters.strangers = introductions_->strangers();
  return counters;
}

// Two ranks share what a pair has.
std::size_t ShmEndpoint::bytes_of_pairs() const {
  return near_.size() * Pair::of_world(nullptr, options_.world_size).size() / 2;
}

std::size_t ShmEndpoint::held_bytes() const {
  return arena_->page() + bytes_of_pairs() + copies_.held_bytes() + fast_copies_.held_bytes();
}

// Peers that meet have one copy between them all; more are made by messages.
std::size_t ShmEndpoint::most_held_bytes() const {
  const bool has_copy = options_.world_size > 2 && !near_.empty();
  return arena_->page() + bytes_of_pairs() + (has_copy ? CommonCopies::longest : 0);
}

// The arena is placed in a stretch that is larger by a large page.
std::uint64_t ShmEndpoint::mapped_by_each_peer() const {
  return arena_->memory().size() + large_page + Pair::of_world(nullptr, options_.world_size).size();
}

std::string ShmEndpoint::describe() const {
  return fmt::format("shared memory with {} other rank{} of this host", near_.size(), near_.size() == 1 ? "" : "s");
}

}  // namespace fabring::shm

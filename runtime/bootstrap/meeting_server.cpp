#include "runtime/bootstrap/meeting_server.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/digest.hpp"
#include "runtime/base/named_thread.hpp"
#include "runtime/base/net/socket.hpp"
#include "runtime/base/rank_list.hpp"
#include "runtime/bootstrap/common_address.hpp"
#include "runtime/bootstrap/master_address.hpp"

namespace fabring {

using meeting::Message;
using namespace std::chrono_literals;

namespace {
constexpr auto join_limit = 5s;

/// May a visitor that was refused so be a rank of ours with a wrong setting? Not one that is at another job's door. And
/// where ranks prove a secret it is known of none that was refused: it has proven nothing, and anybody may say which
/// rank of which job it is.
bool could_be_ours(Refusal refusal, bool secret) {
  return !secret && refusal != Refusal::job && refusal != Refusal::purpose;
}

std::string what_to_do_about_port(std::uint16_t port) {
  if (net::listens_here(port))
    return ". This is where rank 0 meets the others (FABRING_MASTER_PORT): make the engines of one process that meet "
           "there one after the other, in the same order on all ranks, or give each its own port, alike on all ranks";
  return ". This is where rank 0 meets the others (FABRING_MASTER_PORT); if it is a rank 0 of this job that is there, "
         "two processes have FABRING_RANK=0; if it is another job's, give each job its own FABRING_MASTER_PORT, on all "
         "its ranks";
}
}  // namespace

MeetingServer::MeetingServer(const MeetingTerms& terms, const Log& log)
    : terms_(terms),
      log_(log),
      nonce_(random_nonce()),
      strangers_(std::make_shared<std::atomic<std::uint64_t>>(0)),
      members_(static_cast<std::size_t>(terms.greeting.world_size)),
      informed_(static_cast<std::size_t>(terms.greeting.world_size)),
      values_(terms.greeting.world_size) {}

Result<std::unique_ptr<MeetingServer>> MeetingServer::start(const std::vector<net::SocketAddress>& addresses,
                                                            const MeetingTerms& terms, const Log& log) {
  std::unique_ptr<MeetingServer> self(new MeetingServer(terms, log));
  Status problem(ErrorCode::internal, "no address to listen on");
  for (const auto& address : addresses) {
    auto door = Doorkeeper::open(
        self->loop_, address, terms.greeting,
        [server = self.get()](HandshakeResult r) { server->arrived(std::move(r)); }, self->strangers_);
    if (door) {
      self->doors_.push_back(std::move(*door));
      continue;
    }
    problem = door.error();
    // An address that has gone leads nobody astray. Behind one that is taken ranks would meet somebody else.
    if (is_local_address(address)) {
      self->doors_.clear();
      break;
    }
    log.warning("rank 0 cannot be met at one address of its name: " + problem.message());
  }
  if (self->doors_.empty())
    return Status(problem.code(), problem.message() + what_to_do_about_port(addresses.front().port));
  self->reached_at_ = self->doors_.front()->address().host;
  auto thread = start_thread("fabring-meet", [server = self.get()] { server->run(); });
  if (!thread) return thread.error();
  self->thread_ = std::move(*thread);
  return self;
}

MeetingServer::~MeetingServer() {
  if (!thread_.joinable()) return;
  if (!finished_) give_up(meeting::failed_start());
  loop_.post([this] { close_soon(); });
  thread_.join();
}

void MeetingServer::look_for_twin(std::vector<net::SocketAddress> places) {
  loop_.post([this, places = std::move(places)] {
    for (const auto& place : places)
      twins_.push_back(
          TwinVisit::start(loop_, place, terms_.greeting, terms_.self, [this](const Status& status) { fail(status); }));
  });
}

Status MeetingServer::wait_for_all() {
  std::unique_lock lock(mutex_);
  // A failure counts once the others have been told: the caller's process may end right after.
  changed_.wait(lock, [&] { return all_here_ || thread_ended_; });
  return failure_;
}

Status MeetingServer::put(const std::string& key, const std::string& value) {
  loop_.post([this, pair = meeting::Pair{key, value}] { values_.publish(pair); });
  return {};
}

Result<std::string> MeetingServer::get(const std::string& key, std::chrono::steady_clock::time_point deadline) {
  return values_.get(key, deadline);
}

Status MeetingServer::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void MeetingServer::give_up(const Status& why) {
  const meeting::Join& self = terms_.self;
  loop_.post(
      [this, status = Status(why.code(),
                             fmt::format("rank 0 (host {}, pid {}) gave up: {}", self.host, self.pid, why.message()),
                             meeting::blamed(why, 0, self.host))] { fail(status); });
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return thread_ended_; });
}

bool MeetingServer::all_on_this_host() const {
  const std::lock_guard lock(mutex_);
  return same_host_;
}

std::string MeetingServer::local_address() const {
  const std::lock_guard lock(mutex_);
  return reached_at_;
}

template <class Member>
std::shared_ptr<void> MeetingServer::after(std::chrono::nanoseconds delay, Member member) {
  return loop_.after(std::max<std::chrono::nanoseconds>(delay, 0ns), [this, member] { (this->*member)(); });
}

void MeetingServer::run() {
  Log::never_wait();  // all ranks wait for this thread
  note_timer_ = after(terms_.options.note_interval, &MeetingServer::note);
  deadline_timer_ =
      loop_.after(std::max<std::chrono::nanoseconds>(terms_.deadline - std::chrono::steady_clock::now(), 0ns), [this] {
        std::string text =
            fmt::format("waited {} for {}", duration_text(terms_.deadline - terms_.started), missing_text());
        ErrorContext context;
        const auto ranks = missing();
        if (ranks.size() == 1) context.rank = ranks.front();
        // Somebody came in the name of each and was turned away: no matter of patience.
        const bool all_refused = std::ranges::all_of(
            ranks, [this](Rank rank) { return refused_.contains(rank) || without_proof_.contains(rank); });
        fail(Status(all_refused ? ErrorCode::mismatch : ErrorCode::timeout, text, context));
      });
  while (!ended_) loop_.run_for(1s);
  doors_.clear();
  twins_.clear();
  visitors_.clear();
  values_.forget_all();
  doubts_.clear();
  members_.clear();
  loop_.poll();
  const std::lock_guard lock(mutex_);
  thread_ended_ = true;
  changed_.notify_all();
}

std::string MeetingServer::who(const Visitor& visitor) const {
  return fmt::format("rank {} (host {}, pid {}, {})", visitor.rank, visitor.join.host, visitor.join.pid,
                     visitor.link->remote().to_string());
}

MeetingServer::Process MeetingServer::process_of(const Visitor& visitor) {
  return {visitor.rank, visitor.join.fingerprint, visitor.join.host, visitor.join.pid};
}

void MeetingServer::arrived(HandshakeResult result) {
  if (!result.stream) {
    // Without a secret whoever knows the job is of the job. With one, nothing is proven at this point.
    const bool ours = result.refusal == Refusal::world_size || result.refusal == Refusal::rank;
    if (ours && terms_.greeting.secret.empty()) return fail(result.status);
    const bool version = result.refusal == Refusal::version;
    const bool normal = terms_.shared_port && (version || result.refusal == Refusal::job);
    const std::string line = "turned a visitor of the rendezvous away: " + result.status.message();
    if (normal) {
      log_.debug(line);
    } else if (const auto due = turned_away_.due(line)) {
      log_.warning(*due);
    }
    if (normal) {
      if (version) last_stranger_ = result.status.message();  // or a rank of ours: said when time is up
      return;
    }
    if (!could_be_ours(result.refusal, !terms_.greeting.secret.empty())) {
      ++*strangers_;
      last_stranger_ = result.status.message();
      if (result.refusal == Refusal::secret && result.peer.rank > 0 && result.peer.rank < terms_.greeting.world_size)
        without_proof_.insert(result.peer.rank);
      return;
    }
    const bool named = !version && result.peer.rank >= 0 && result.peer.rank < terms_.greeting.world_size;
    if (!named) ++refused_without_rank_;
    refused_[named ? result.peer.rank : -1] = result.status;
    return judge_refused();
  }
  auto visitor = std::make_shared<Visitor>();
  visitor->rank = result.peer.rank;
  visitor->link =
      FrameStream::open(loop_, std::move(result.stream), meeting::most_payload_bytes,
                        {[this, weak = std::weak_ptr(visitor)](std::uint8_t type, std::string_view payload) {
                           const auto strong = weak.lock();
                           return strong && on_frame(strong, type, payload);
                         },
                         [this, weak = std::weak_ptr(visitor)](const std::string&) {
                           if (const auto strong = weak.lock()) on_end(strong);
                         }});
  visitors_.insert(visitor);
  visitor->join_limit = loop_.after(join_limit, [this, weak = std::weak_ptr(visitor)] {
    const auto strong = weak.lock();
    if (!strong || strong->joined) return;
    ++*strangers_;
    visitors_.erase(strong);
  });
}

bool MeetingServer::on_frame(const VisitorPtr& visitor, std::uint8_t type, std::string_view payload) {
  const auto message = static_cast<Message>(type);
  if (!visitor->joined) return message == Message::join && on_join(visitor, payload);
  switch (message) {
    case Message::here:
      if (const auto doubted = doubts_.find(visitor->rank);
          doubted != doubts_.end() && members_[static_cast<std::size_t>(visitor->rank)] == visitor)
        fail(came_twice(who(*visitor), *doubted->second.second));
      return payload.empty();
    case Message::put:
      return all_here_ && on_put(visitor, payload);
    case Message::get:
      return all_here_ && values_.answer(visitor->link, payload);
    case Message::done:
      visitor->done = true;
      visitor->link->finish();
      end_if_possible();
      return true;
    case Message::give_up: {
      const auto why = meeting::decode_status(payload);
      if (!why || why->context().rank >= terms_.greeting.world_size) return false;
      informed_[static_cast<std::size_t>(visitor->rank)] = true;
      told_.insert(process_of(*visitor));
      visitor->done = true;
      fail(Status(why->code(), fmt::format("{} gave up: {}", who(*visitor), why->message()),
                  meeting::blamed(*why, visitor->rank, visitor->join.host)));
      return true;
    }
    default:
      return false;
  }
}

void MeetingServer::welcome_if_complete() {
  if (came_ < terms_.greeting.world_size || all_here_ || !failure_.ok() || !doubts_.empty()) return;
  const std::string master = settle_master_address();
  if (!master.empty()) {
    const std::lock_guard lock(mutex_);
    reached_at_ = master;
  }
  const auto welcome = [&](const std::string& own_address) {
    return FrameStream::encode(meeting::type_of(Message::welcome),
                               meeting::encode(meeting::Welcome{nonce_, same_host_, own_address, master}));
  };
  const auto to_others = welcome(""), to_those_beside = welcome(same_host_ ? "" : reached_at_);
  for (const VisitorPtr& member : members_)
    if (member) member->link->send(member->beside ? to_those_beside : to_others);
  note_timer_.reset();
  deadline_timer_.reset();
  loop_.post([this] { close_doors(); });  // a visitor of theirs may have called here
  const std::lock_guard lock(mutex_);
  all_here_ = true;
  changed_.notify_all();
}

// Nobody else is expected. A rank that is done and makes its next engine comes here again, long before rank 0 does.
void MeetingServer::close_doors() {
  doors_.clear();
  std::erase_if(visitors_, [](const VisitorPtr& visitor) { return !visitor->joined; });
}

std::string MeetingServer::settle_master_address() const {
  std::vector<WayToMaster> ways;
  std::vector<Rank> ranks;
  for (const VisitorPtr& member : members_) {
    if (!member || member->beside) continue;
    ways.push_back({member->link->local().host, member->join.master_addresses});
    ranks.push_back(member->rank);
  }
  const std::string master = common_address(ways);
  if (const std::string different = different_ways(ways, ranks); !different.empty() && !master.empty())
    log_.info(
        fmt::format("ranks of other hosts came to rank 0 at several of its addresses: {}; all go by the way to {}",
                    different, master));
  return master;
}

bool MeetingServer::on_put(const VisitorPtr& visitor, std::string_view payload) {
  const auto pair = meeting::decode_pair(payload);
  if (!pair) return false;
  if (!failure_.ok()) return true;  // it has not heard yet
  // In words: a rank whose connection ends without any is taken for one that died.
  if (!values_.publish_of(visitor->rank, *pair, payload.size()))
    fail(Status(ErrorCode::out_of_memory,
                fmt::format("{} has published more than the {} KiB that rank 0 keeps of each rank while they set up: "
                            "put less into the bootstrap there",
                            who(*visitor), MeetingValues::most_bytes_per_rank / 1024),
                meeting::about(visitor->rank, visitor->join.host)));
  return true;
}

void MeetingServer::fail(const Status& status) {
  if (!failure_.ok()) return;
  {
    const std::lock_guard lock(mutex_);
    failure_ = status;
  }
  values_.fail(status);
  doubts_.clear();
  note_timer_.reset();
  deadline_timer_.reset();
  judge_timer_.reset();
  const auto frame = FrameStream::encode(meeting::type_of(Message::failed), meeting::encode(status));
  for (const VisitorPtr& visitor : visitors_) {
    if (!visitor->joined || visitor->done) continue;
    visitor->link->send(frame);
    told_.insert(process_of(*visitor));
  }
  for (const auto& [rank, ignored] : refused_)
    if (rank > 0) informed_[static_cast<std::size_t>(rank)] = true;
  // Those who come late are told too, for a while.
  end_timer_ = loop_.after(terms_.options.farewell_limit, [this] { ended_ = true; });
  end_if_possible();
}

void MeetingServer::note() {
  const std::string text = fmt::format(
      "still waiting for {}",
      missing_text(fmt::format(", for {} now", duration_text(std::chrono::steady_clock::now() - terms_.started))));
  log_.warning(text);
  const auto frame = FrameStream::encode(meeting::type_of(Message::waiting), meeting::encode_text(text));
  for (const VisitorPtr& member : members_)
    if (member) member->link->send(frame);
  note_timer_ = after(terms_.options.note_interval, &MeetingServer::note);
}

// A visitor that was refused for its version may be a rank of ours with a wrong setting, or a process that has nothing
// to do with us and must not end our job. We take it for ours once nobody else is missing. One of another job never is,
// nor any where ranks prove a secret, nor on ports that other jobs try, of whatever version: it is named where ranks
// are missing, and when time is up.
void MeetingServer::judge_refused() {
  if (!failure_.ok() || all_here_ || refused_.empty()) return judge_timer_.reset();
  const auto absent = missing();
  const auto unexplained =
      std::count_if(absent.begin(), absent.end(), [&](Rank rank) { return !refused_.contains(rank); });
  if (unexplained > refused_without_rank_) return judge_timer_.reset();
  judge_timer_ = loop_.after(terms_.options.verdict_delay, [this] {
    if (failure_.ok() && !all_here_) fail(refused_.begin()->second);
  });
}

void MeetingServer::close_soon() {
  closing_ = true;
  if (!failure_.ok()) ended_ = true;
  if (!ended_) end_timer_ = loop_.after(terms_.options.closing_limit, [this] { ended_ = true; });
  end_if_possible();
}

void MeetingServer::end_if_possible() {
  if (!failure_.ok()) {
    bool all_know = true;
    for (std::size_t rank = 1; rank < informed_.size(); ++rank) all_know = all_know && informed_[rank];
    ended_ = ended_ || (all_know && visitors_.empty());
  } else if (closing_) {
    const bool all_done = std::all_of(members_.begin() + 1, members_.end(),
                                      [](const VisitorPtr& member) { return !member || member->done; });
    ended_ = ended_ || all_done;
  }
  if (ended_) loop_.wake();
}

std::vector<Rank> MeetingServer::missing() const {
  std::vector<Rank> ranks;
  for (std::size_t rank = 1; rank < members_.size(); ++rank)
    if (!members_[rank] || doubts_.contains(static_cast<Rank>(rank))) ranks.push_back(static_cast<Rank>(rank));
  return ranks;
}

std::string MeetingServer::missing_text(const std::string& how_long) const {
  std::string text = fmt::format("{} of {} ({} came){}", rank_list(missing()), terms_.greeting.world_size,
                                 came_ - static_cast<int>(doubts_.size()), how_long);
  if (!refused_.empty() || !last_stranger_.empty())
    text += fmt::format("; turned away: {}", refused_.empty() ? last_stranger_ : refused_.begin()->second.message());
  if (const auto count = strangers_->load(); count > 0) text += fmt::format("; strangers turned away: {}", count);
  for (const auto& door : doors_)
    if (const std::string trouble = door->trouble(); !trouble.empty()) {
      text += "; " + trouble;
      break;
    }
  if (refused_.empty() && last_stranger_.empty())
    text += "; a rank whose program has ended, also with status 0, does not come: look at its output";
  if (!terms_.hint.empty()) text += "; " + terms_.hint;
  return text;
}

}  // namespace fabring

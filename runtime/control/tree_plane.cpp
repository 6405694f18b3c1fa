#include "runtime/control/tree_plane.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/rank_list.hpp"

// The public side: the calls of other threads. The control thread's side is tree_plane_links.cpp.

namespace fabring {

using namespace std::chrono_literals;

TreePlane::TreePlane(const Config& config, const std::string& secret, const Bootstrap& bootstrap, const Log& log,
                     const ControlOptions& options)
    : config_(config),
      options_(options),
      log_(log),
      self_(config.rank),
      tree_{config.world_size},
      bind_host_(listen_host(bootstrap)),
      meeting_(
          loop_, greeting_for(config, secret, bootstrap.job_nonce(), Purpose::control), log_,
          [this](Rank peer, std::unique_ptr<net::Stream> stream) { link_up(peer, std::move(stream)); },
          [this](Rank peer, std::unique_ptr<net::Stream> stream) { somebody_came(peer, std::move(stream)); },
          [this](const Status& why) { refused_by_parent(why); }),
      gather_(config.world_size),
      identities_(static_cast<std::size_t>(config.world_size)),
      activities_(static_cast<std::size_t>(config.world_size)),
      left_(static_cast<std::size_t>(config.world_size)),
      joined_(config.world_size) {
  loop_.allow_silence(config.silence_timeout);
  for (Rank peer : tree_.neighbours(self_)) {
    unlinked_.insert(peer);
    links_.emplace_back();
    links_.back().peer = peer;
  }
}

TreePlane::~TreePlane() { TreePlane::end_thread(); }

void TreePlane::end_thread() {
  if (!thread_.joinable()) return;
  loop_.post([this] { stop(); });
  thread_.join();
}

Status TreePlane::status_of(const Failure& failure) const {
  ErrorContext context;
  context.rank = failure.culprit;
  if (joined_.is_rank(failure.culprit)) context.host = identities_[static_cast<std::size_t>(failure.culprit)].host;
  return Status(failure.code, failure.text, context);
}

std::string TreePlane::listen_host(const Bootstrap& bootstrap) const {
  const std::string address = bootstrap.local_address();
  const bool loopback = net::SocketAddress{address, 0}.is_loopback();
  return bootstrap.all_on_this_host() && !loopback ? "127.0.0.1" : address;
}

Result<std::vector<std::string>> TreePlane::all_gather(std::string blob) {
  if (blob.size() > control::most_blob_bytes)
    return Status(ErrorCode::invalid_argument, fmt::format("a blob of {} bytes is too long to gather: at most {}",
                                                           blob.size(), control::most_blob_bytes));
  const std::lock_guard turn(gather_turn_);
  if (gather_broken_)
    return Status(ErrorCode::timeout,
                  "an earlier exchange between the ranks was not completed, so none can be any more");
  const SteadyTime started = std::chrono::steady_clock::now();
  const SteadyTime deadline = started + config_.rendezvous_timeout;
  loop_.post([this, blob = std::move(blob)]() mutable { add_blob({gather_.number(), self_, std::move(blob)}, -1); });
  std::unique_lock lock(mutex_);
  Status lost;
  const auto decided = [&] {
    if (gather_.is_finished()) return true;
    lost = lost_while_gathering_locked();
    return !lost.ok();
  };
  const auto missing = [&] {
    std::vector<Rank> ranks;
    for (Rank rank = 0; rank < config_.world_size; ++rank)
      if (!gather_.has(rank)) ranks.push_back(rank);
    return fmt::format("{} of {} to take part in an exchange between the ranks at the start", rank_list(ranks),
                       config_.world_size);
  };
  bool in_time = false;
  for (SteadyTime next_note = started; !in_time && std::chrono::steady_clock::now() < deadline;) {
    next_note += options_.note_silence_after;
    in_time = changed_.wait_until(lock, std::min(next_note, deadline), decided);
    if (in_time || next_note >= deadline) continue;
    const std::string text = missing();
    lock.unlock();
    log_.warning(fmt::format("still waiting for {}, for {} now", text,
                             duration_text(std::chrono::steady_clock::now() - started)));
    lock.lock();
  }
  if (gather_.is_finished()) return *gather_.take();
  gather_broken_ = true;
  if (in_time) return lost;
  return Status(ErrorCode::timeout, fmt::format("waited {} (FABRING_RENDEZVOUS_TIMEOUT) for {}",
                                                duration_text(config_.rendezvous_timeout), missing()));
}

Status TreePlane::lost_while_gathering_locked() const {
  if (lost_) return status_of(*lost_);
  for (Rank rank = 0; rank < config_.world_size; ++rank) {
    if ((left_[static_cast<std::size_t>(rank)] != 0 || joined_.is_gone(rank)) && !gather_.has(rank)) {
      ErrorContext context;
      context.rank = rank;
      context.host = identities_[static_cast<std::size_t>(rank)].host;
      return Status(ErrorCode::peer_lost,
                    fmt::format("{} has left or cannot be reached, the exchange between the ranks cannot be completed",
                                who_locked(rank)),
                    context);
    }
  }
  return {};
}

void TreePlane::report(Failure failure) {
  failure.reporter = self_;
  failure.text = control::tidy(failure.text, control::most_text_bytes);
  loop_.post([this, failure = std::move(failure)] { learn(failure, -1); });
}

void TreePlane::on_failure(std::function<void(const Failure&)> handler) {
  {
    const std::lock_guard lock(mutex_);
    handler_ = std::move(handler);
  }
  loop_.post([this] { deliver(); });
}

void TreePlane::tell(RefusedCall refusal) {
  refusal.rank = self_;
  refusal.text = control::tidy(refusal.text, control::most_reason_bytes);
  loop_.post([this, payload = control::encode(refusal)] { flood(control::Message::refusal, payload, -1); });
}

void TreePlane::on_refusal(std::function<void(const RefusedCall&)> handler) {
  const std::lock_guard lock(mutex_);
  refusal_handler_ = std::move(handler);
}

void TreePlane::after(std::chrono::milliseconds delay, std::function<void()> what) {
  loop_.post([this, delay, what = std::move(what)]() mutable {
    if (stopping_) return;
    const std::uint64_t number = next_timer_++;
    timers_[number] = loop_.after(delay, [this, number, what = std::move(what)] {
      const auto timer = timers_.extract(number);
      if (!stopping_) what();
    });
  });
}

void TreePlane::set_account(std::string account) {
  const std::lock_guard lock(mutex_);
  account_ = std::move(account);
}

void TreePlane::on_goodbye(std::function<void(Rank, const std::string&)> handler) {
  const std::lock_guard lock(mutex_);
  goodbye_handler_ = std::move(handler);
}

void TreePlane::set_activity(std::string text) {
  const std::lock_guard lock(mutex_);
  own_activity_ = control::tidy(text, control::most_activity_bytes);
  activity_changed_ = true;
}

bool TreePlane::hears_of(Rank rank) const {
  const std::lock_guard lock(mutex_);
  return joined_.reaches(self_, rank);
}

std::uint32_t TreePlane::leave_order(Rank rank) const {
  const std::lock_guard lock(mutex_);
  return left_[static_cast<std::size_t>(rank)];
}

std::string TreePlane::activity_of(Rank rank) const {
  if (rank < 0 || rank >= config_.world_size) return {};
  const std::lock_guard lock(mutex_);
  return rank == self_ ? own_activity_ : activities_[static_cast<std::size_t>(rank)];
}

std::string TreePlane::host_of(Rank rank) const {
  if (rank < 0 || rank >= config_.world_size) return {};
  const std::lock_guard lock(mutex_);
  return identities_[static_cast<std::size_t>(rank)].host;
}

Status TreePlane::leave(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  leaving_ = true;
  loop_.post([this, account = account_] { mark_left({self_, account}, -1); });
  const bool all_left = changed_.wait_for(lock, limit, [&] { return not_left_locked().empty(); });
  if (all_left) return {};
  const std::vector<Rank> missing = not_left_locked();
  ErrorContext context;
  if (missing.size() == 1) {
    context.rank = missing.front();
    context.host = identities_[static_cast<std::size_t>(context.rank)].host;
  }
  return Status(
      ErrorCode::timeout,
      fmt::format("waited {} for {} of {} to leave", duration_text(limit), rank_list(missing), config_.world_size),
      std::move(context));
}

std::vector<Rank> TreePlane::not_left_locked() const {
  std::vector<Rank> found;
  for (Rank rank = 0; rank < config_.world_size; ++rank)
    if (left_[static_cast<std::size_t>(rank)] == 0 && !joined_.is_gone(rank) && !ended_ranks_.contains(rank))
      found.push_back(rank);
  return found;
}

std::string TreePlane::who_locked(Rank rank) const {
  const Identity& identity = identities_[static_cast<std::size_t>(rank)];
  if (identity.host.empty()) return fmt::format("rank {}", rank);
  return fmt::format("rank {} (host {}, pid {})", rank, identity.host, identity.pid);
}

std::string TreePlane::who(Rank rank) const {
  const std::lock_guard lock(mutex_);
  return who_locked(rank);
}

Result<std::unique_ptr<ControlPlane>> start_control_plane(const Config& config, const std::string& secret,
                                                          Bootstrap& bootstrap, const Log& log,
                                                          const ControlOptions& options) {
  auto plane = std::make_unique<TreePlane>(config, secret, bootstrap, log, options);
  if (Status status = plane->form(bootstrap); !status.ok()) {
    // Those who have a link to us hear the reason instead of seeing us die.
    plane->report({status.code(), status.context().rank, -1, 0, status.message()});
    return status;
  }
  return std::unique_ptr<ControlPlane>(std::move(plane));
}

Result<std::unique_ptr<ControlPlane>> ControlPlane::start(const Config& config, const std::string& secret,
                                                          Bootstrap& bootstrap, const Log& log) {
  return start_control_plane(config, secret, bootstrap, log, ControlOptions{});
}

}  // namespace fabring

#pragma once
// Control planes of several ranks as objects of one process, with a bootstrap that is a table in memory.

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/control/tree_plane.hpp"

namespace fabring::testing_support {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

constexpr auto patience = 60s;  // for a machine that is busy with other things

class Board {
 public:
  void put(const std::string& key, const std::string& value) {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
    changed_.notify_all();
  }
  Result<std::string> get(const std::string& key, steady_clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_until(lock, deadline, [&] { return values_.contains(key); }))
      return Status(ErrorCode::timeout, "nobody published " + key);
    return values_[key];
  }
  void fail(const Status& why) {
    const std::lock_guard lock(mutex_);
    failure_ = why;
  }
  Status failure() {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

 private:
  std::mutex mutex_;
  Status failure_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

class BoardBootstrap final : public Bootstrap {
 public:
  explicit BoardBootstrap(Board& board, bool outlives_ranks = false) : board_(board), outlives_ranks_(outlives_ranks) {}
  Status put(const std::string& key, const std::string& value) override { return board_.put(key, value), Status(); }
  Result<std::string> get(const std::string& key, steady_clock::time_point deadline) override {
    return board_.get(key, deadline);
  }
  Status failure() override { return board_.failure(); }
  void give_up(const Status& why) override { board_.fail(why); }
  std::uint64_t job_nonce() const override { return 4242; }
  std::string local_address() const override { return "127.0.0.1"; }
  bool all_on_this_host() const override { return true; }
  bool outlives_ranks() const override { return outlives_ranks_; }
  std::uint64_t strangers() const override { return 0; }

 private:
  Board& board_;
  const bool outlives_ranks_;
};

/// What a rank's handler was told.
class Heard {
 public:
  void add(const Failure& failure) {
    const std::lock_guard lock(mutex_);
    failures_.push_back(failure);
    changed_.notify_all();
  }
  /// The first failure; none if none comes.
  std::optional<Failure> first() {
    const auto found = wait_for(1);
    return found.empty() ? std::nullopt : std::optional(found.front());
  }
  /// At least so many; fewer if no more come.
  std::vector<Failure> wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, patience, [&] { return failures_.size() >= count; });
    return failures_;
  }
  std::size_t count() const {
    const std::lock_guard lock(mutex_);
    return failures_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Failure> failures_;
};

struct World {
  explicit World(int size, const ControlOptions& control_options = {})
      : options(control_options), heard(static_cast<std::size_t>(size)) {
    config.world_size = size;
    config.job_id = "control test";
    config.rendezvous_timeout = patience;
    config.timeout = patience;
  }

  void start() {
    planes.resize(heard.size());
    each([&](Rank rank) { begin(rank); });
  }

  /// The plane of one rank; there must be room for it in `planes`.
  void begin(Rank rank) {
    Config own = config;
    own.rank = rank;
    BoardBootstrap bootstrap(board);
    auto plane = start_control_plane(own, "", bootstrap, log, options);
    ASSERT_TRUE(plane.has_value()) << plane.error().to_string();
    (*plane)->on_failure([this, rank](const Failure& failure) { of(rank).add(failure); });
    planes[static_cast<std::size_t>(rank)] = std::move(*plane);
  }

  /// Runs `body` for every rank in a thread of its own.
  void each(const std::function<void(Rank)>& body) {
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < heard.size(); ++rank)
      threads.emplace_back([&body, rank] { body(static_cast<Rank>(rank)); });
    for (auto& thread : threads) thread.join();
  }

  ControlPlane& plane(Rank rank) { return *planes[static_cast<std::size_t>(rank)]; }
  Heard& of(Rank rank) { return heard[static_cast<std::size_t>(rank)]; }
  void kill(Rank rank) { planes[static_cast<std::size_t>(rank)].reset(); }  // no goodbye, as a killed process

  ControlOptions options;
  Config config;
  Log log;
  Board board;
  std::vector<Heard> heard;
  std::vector<std::unique_ptr<ControlPlane>> planes;
};

/// The control thread of a rank stands still, as if its process were stopped, until go_on() or the end of this.
class StandingStill {
 public:
  explicit StandingStill(ControlPlane& plane) {
    plane.after(0ms, [this, until = go_on_.get_future().share()] {
      stands_.set_value();
      until.wait();
    });
    stands_.get_future().wait();
  }
  ~StandingStill() { go_on(); }
  StandingStill(const StandingStill&) = delete;
  StandingStill& operator=(const StandingStill&) = delete;
  void go_on() {
    if (!std::exchange(goes_on_, true)) go_on_.set_value();
  }

 private:
  std::promise<void> stands_, go_on_;
  bool goes_on_ = false;
};

}  // namespace fabring::testing_support

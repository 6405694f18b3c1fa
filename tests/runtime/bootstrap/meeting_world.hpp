#pragma once
// Ranks as threads of one process that meet over loopback, and the means to find them a place to meet.

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "fabring/types.hpp"
#include "runtime/base/handshake.hpp"
#include "runtime/base/log_line.hpp"
#include "runtime/base/net/net.hpp"
#include "runtime/bootstrap/master_search.hpp"
#include "runtime/bootstrap/meeting_server.hpp"
#include "runtime/bootstrap/rendezvous.hpp"

namespace fabring::testing_support {

using namespace std::chrono_literals;

constexpr auto patience = 60s;  // for a machine that is busy with other things

/// Every test program has loopback addresses of its own, so that a port which was free a moment ago stays free. There
/// are two of them, 0 and 1.
inline std::string own_loopback_address(unsigned which = 0) {
  const auto pid = static_cast<unsigned>(::getpid());
  return "127." + std::to_string(1 + 64 * which + (pid >> 14 & 0x3f)) + "." + std::to_string(pid >> 7 & 0x7f) + "." +
         std::to_string(1 + (pid & 0x7f));
}

inline std::uint16_t free_port() {
  net::Loop loop;
  auto listener = net::Listener::open(loop, {own_loopback_address(), 0}, [](auto) {});
  EXPECT_TRUE(listener.has_value());
  return (*listener)->address().port;
}

/// Collects log lines of all ranks.
class Notes {
 public:
  /// Waits until so many lines have that part; false if they do not come.
  bool wait(const std::string& part, int times = 1) const {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (count(part) < times && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    return count(part) >= times;
  }
  Log log(int rank, LogLevel level = LogLevel::info) {
    return Log(level, rank, [this](LogLevel of, int by, std::string_view text) {
      const std::string line = log_line(of, by, text);
      const std::lock_guard lock(mutex_);
      lines_.emplace_back(line);
      if (Log::may_wait()) patient_.emplace_back(line);
    });
  }
  int count(const std::string& part) const { return count_in(lines_, part); }
  /// Of threads that may wait until somebody reads them.
  int count_patient(const std::string& part) const { return count_in(patient_, part); }

 private:
  int count_in(const std::vector<std::string>& lines, const std::string& part) const {
    const std::lock_guard lock(mutex_);
    int found = 0;
    for (const auto& line : lines) found += line.find(part) != std::string::npos;
    return found;
  }

  mutable std::mutex mutex_;
  std::vector<std::string> lines_, patient_;
};

using Met = std::optional<Result<std::unique_ptr<Bootstrap>>>;

struct Meeting {
  Config base;
  std::string secret;
  RendezvousOptions options;
  std::vector<std::string> hosts;  ///< the fingerprint of each process; empty: all are on this host
  Notes notes;
  LogLevel level = LogLevel::info;
  /// Changes what one process is told; called with its place in the list of processes.
  std::function<void(int process, Config& config, std::string& secret)> change = [](int, Config&, std::string&) {};
  /// While the bootstraps are alive, in each thread.
  /// All but the rank `failing` finish after it.
  std::function<void(int process, Bootstrap& bootstrap)> use = [](int, Bootstrap&) {};

  Rank failing = -1;

  explicit Meeting(int world) {
    base.world_size = world;
    base.master_addr = own_loopback_address();
    base.master_port = free_port();
    base.job_id = "a";
    base.rendezvous_timeout = patience;
    options.farewell_limit = 2s;  // threads of a busy machine come this late
  }

  /// Starts these ranks, one thread each; what became of each, by place.
  std::vector<Status> run(const std::vector<Rank>& ranks) {
    std::vector<Status> ends(ranks.size());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      threads.emplace_back([&, i] {
        Config config = base;
        std::string own_secret = secret;
        config.rank = ranks[i];
        change(static_cast<int>(i), config, own_secret);
        RendezvousOptions own_options = options;
        if (!hosts.empty()) own_options.fingerprint = hosts[i];
        auto met = rendezvous(config, own_secret, notes.log(config.rank, level), own_options);
        if (met) use(static_cast<int>(i), **met);
        if (met && ranks[i] != failing) (*met)->finish();
        if (!met) ends[i] = met.error();
      });
    }
    for (auto& thread : threads) thread.join();
    return ends;
  }
  /// A rank 0 without the search for its addresses.
  Result<std::unique_ptr<MeetingServer>> serve(std::vector<std::string> addresses, const std::string& host = "") {
    std::vector<net::SocketAddress> places;
    for (const std::string& address : addresses)
      places.push_back({address, static_cast<std::uint16_t>(base.master_port)});
    HandshakeOptions greeting;
    greeting.purpose = Purpose::rendezvous;
    greeting.job_id = base.job_id;
    greeting.world_size = base.world_size;
    const auto now = std::chrono::steady_clock::now();
    const MeetingTerms terms{greeting, false, "", host, {host, "serving", 1}, now, now + base.rendezvous_timeout,
                             options};
    return MeetingServer::start(places, terms, notes.log(0));
  }
  std::vector<Status> run_all() {
    std::vector<Rank> ranks;
    for (Rank rank = 0; rank < base.world_size; ++rank) ranks.push_back(rank);
    return run(ranks);
  }
};

/// Where the rank `self` finds rank 0.
inline MasterSearch search_of(const Config& config, Rank self) {
  HandshakeOptions greeting;
  greeting.purpose = Purpose::rendezvous;
  greeting.job_id = config.job_id;
  greeting.self = self;
  greeting.world_size = config.world_size;
  const auto now = std::chrono::steady_clock::now();
  return {
      config.master_addr, config.master_named_by, static_cast<std::uint16_t>(config.master_port), false, greeting, now,
      now + patience};
}

/// Of what ranks hear soon, and not at a deadline.
class RendezvousError : public testing::Test {
 protected:
  void TearDown() override {
    EXPECT_LT(std::chrono::steady_clock::now() - begin_, patience / 2) << "an error took until the deadline";
  }
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace fabring::testing_support

#pragma once
// NetProbe: what a rank of `fabring doctor net` does with the others: it listens as a job's ranks do and answers small
// and large messages, and it calls at every door of every other rank: connect, handshake, small messages, 64 KiB. A
// thread of its own ("fabring-probe"), so that it answers while its caller waits for something else. Every probe is
// bounded.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/doorkeeper.hpp"
#include "runtime/base/frame_stream.hpp"
#include "tools/fabring/doctor/net_facts.hpp"

namespace fabring::tools {

struct ProbeLimits {
  std::chrono::milliseconds connect{3000};
  std::chrono::milliseconds small{2000};
  std::chrono::milliseconds large{3000};
};

class NetProbe {
 public:
  /// `greeting`: job, nonce, self, world, secret.
  NetProbe(const HandshakeOptions& greeting, const ProbeLimits& limits);
  ~NetProbe();

  /// Listens at this address, port chosen by the system; before start(). Errors as Listener::open.
  Result<net::SocketAddress> listen(const std::string& host);
  /// Errors: unavailable (no more threads).
  Status start();
  /// Calls at all of them, a few at a time, and returns when all are known or at the deadline. In the order given. What
  /// has not ended by then is forgotten with the next call.
  struct Target {
    Rank rank;
    std::uint8_t door;
    net::SocketAddress address;
    std::string from = {};  ///< the address of ours to call from; empty: the kernel's choice
    bool knock = false;     ///< only connect: it is no port of ours
  };
  std::vector<Probe> call(const std::vector<Target>& targets, std::chrono::steady_clock::time_point deadline);

 private:
  class Visit;
  void run();
  void arrived(HandshakeResult result);
  void next();

  const HandshakeOptions greeting_;
  const ProbeLimits limits_;
  net::Loop loop_;
  const std::shared_ptr<std::atomic<std::uint64_t>> strangers_ = std::make_shared<std::atomic<std::uint64_t>>(0);
  std::vector<std::unique_ptr<Doorkeeper>> doors_;
  std::map<std::uint64_t, std::shared_ptr<FrameStream>> guests_;  // who called here
  std::uint64_t next_guest_ = 0;
  std::deque<std::pair<std::size_t, Target>> waiting_;
  std::set<std::shared_ptr<Visit>> visits_;
  bool stop_ = false;  // the loop's
  int calling_ = 0;    // the loop's: the round that waiting_ belongs to

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Probe> found_;
  std::size_t left_ = 0;
  int round_ = 0;  // of call(); what an earlier one began counts no more

  std::thread thread_;
};

}  // namespace fabring::tools

#pragma once
// FabricProbe: the part of `fabring doctor net` that goes through libfabric itself: an endpoint on each network card,
// as a job's rank opens it, and small and large messages to those of the other ranks and back. Only so is a provider's
// own connection tested, and with EFA the security group. Once started a thread of its own answers ("fabring-fabric").

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/startup/usable_transports.hpp"
#include "tools/fabring/doctor/net_facts.hpp"
#include "topology/rail_choice.hpp"

namespace fabring::tools {

class FabricProbe {
 public:
  explicit FabricProbe(std::chrono::milliseconds limit);
  ~FabricProbe();

  /// Finds out which networks work here and, if libfabric is the best of them, opens it on every card: a door for each.
  void open(const EndpointOptions& options, const RailChoice& cards, NetFacts& facts);

  struct Target {
    Rank rank;
    std::uint8_t door;    ///< its number with that rank
    std::size_t own;      ///< the number of the door of ours that is joined to it
    std::uint8_t beside;  ///< the number of its TCP door on the same card; 255: it has none
    std::string fabric;   ///< its Door::fabric
    std::string address;  ///< its Door::address
    bool called = true;   ///< else only answered: packets from our card would leave by another
  };
  /// Receives from all of these and answers them from now on. The others must not call() before all have done this.
  Status start(const std::vector<Target>& targets);
  /// Calls at those of the targets that `wanted` says, and returns when all have answered or the limit has passed.
  std::vector<Probe> call(const std::vector<bool>& wanted, std::chrono::steady_clock::time_point deadline);

 private:
  class Conversation;
  struct Card {
    std::size_t door;
    std::unique_ptr<Endpoint> endpoint;
  };
  void run();

  const std::chrono::milliseconds limit_;
  std::unique_ptr<UsableTransports> usable_;
  std::vector<Card> cards_;
  std::vector<std::unique_ptr<Conversation>> talks_;  // by target; the thread's once it runs
  std::atomic<bool> stop_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> wanted_;  // empty: not yet called
  std::vector<Probe> found_;
  std::size_t left_ = 0;

  std::thread thread_;
};

}  // namespace fabring::tools

#pragma once
// MessageLengths: what message_length() says, kept for the next call, as pricing takes some microseconds. Of one
// communicator; any thread.

#include <map>
#include <mutex>
#include <tuple>

#include "collectives/choice/table.hpp"
#include "collectives/cost/message_length.hpp"
#include "runtime/engine/call/call.hpp"

namespace fabring {

class MessageLengths {
 public:
  /// Of this call by this plan's algorithm. `machine()` gives the same until clear().
  template <typename GetMachine>
  std::size_t of(const Call& call, const Plan& plan, const WorldShape& shape, GetMachine&& machine) {
    const std::uint64_t bytes = call.carried_bytes();
    std::lock_guard lock(mutex_);
    const Key key{call.collective, call.algorithm, ChoiceTable::size_class(bytes)};
    auto found = lengths_.find(key);
    if (found == lengths_.end())
      found = lengths_.emplace(key, message_length(call.collective, plan.algorithm, bytes, shape, machine())).first;
    return found->second;
  }
  void clear() {
    std::lock_guard lock(mutex_);
    lengths_.clear();
  }

 private:
  using Key = std::tuple<Collective, Algorithm, std::size_t>;
  std::mutex mutex_;
  std::map<Key, std::size_t> lengths_;
};

}  // namespace fabring

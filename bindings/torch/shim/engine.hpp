#pragma once
// SharedEngine: an engine and what is known about it in this process. It lives as long as a group that uses it, and
// says goodbye to the other ranks when nothing keeps it in the job any more.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fabring/fabring.h"
#include "process.hpp"
#include "stay.hpp"
#include "store_keys.hpp"
#include "tensor_memory.hpp"

namespace fabring_torch {

class SharedEngine {
 public:
  struct Joined {
    std::shared_ptr<SharedEngine> engine;
    std::shared_ptr<Stay> stay;
  };
  /// Meets the ranks by the store. `token` names it in this process and on the others, `job` to people. Where it fails,
  /// on any rank, all hear why.
  static Joined create(const StoreKeys& keys, int rank, int size, std::chrono::milliseconds timeout,
                       std::vector<std::int64_t> global_ranks, std::string token, const std::string& job);
  /// The living engine of this name; null if there is none.
  static std::shared_ptr<SharedEngine> find(const std::string& token);
  /// The newest engine that has all these ranks and has not left; null if there is none.
  static std::shared_ptr<SharedEngine> find(const std::vector<std::int64_t>& global_ranks);
  /// Of all these, the newest first: ranks that were started again have no other. Only the names: who held the engines
  /// would keep them from saying goodbye.
  static std::vector<std::string> tokens(const std::vector<std::int64_t>& global_ranks);
  ~SharedEngine();
  SharedEngine(const SharedEngine&) = delete;
  SharedEngine& operator=(const SharedEngine&) = delete;

  fabring_engine* handle() const { return handle_; }
  const std::string& token() const { return token_; }
  TensorMemory& tensor_memory() const { return *tensor_memory_; }
  /// To be held by whoever keeps this rank in the job; null once it has left.
  std::shared_ptr<Stay> stay() const { return stay_.lock(); }
  const std::vector<std::int64_t>& global_ranks() const { return global_ranks_; }
  /// The value that the engine was made with. Throws.
  std::string setting(const std::string& name) const;
  /// A number that no subgroup of this engine has had on any rank.
  std::uint32_t take_number() const;
  /// The communicator of these ranks, in this order. Throws.
  fabring_comm* subgroup(const std::vector<std::int64_t>& global_ranks, std::uint32_t number,
                         const std::string& label) const;
  fabring_comm* world() const;

  /// FABRING_LEAVE_TIMEOUT, the longest of all engines of this process; 0 where there is none.
  static std::chrono::milliseconds longest_leave();
  /// Leaves all engines of this process, for its end: what is under way ends, and the others learn that this rank is
  /// gone on purpose.
  static void leave_all();

 private:
  SharedEngine(const StoreKeys& keys, fabring_engine* handle, std::vector<std::int64_t> global_ranks, std::string token)
      : keys_(keys), handle_(handle), global_ranks_(std::move(global_ranks)), token_(std::move(token)) {}
  /// For a group of these ranks?
  bool serves(const std::vector<std::int64_t>& global_ranks) const;

  const Origin origin_;
  const StoreKeys keys_;
  fabring_engine* handle_;
  const std::vector<std::int64_t> global_ranks_;  // of the engine's ranks
  const std::string token_;
  const std::shared_ptr<TensorMemory> tensor_memory_ = std::make_shared<TensorMemory>();
  std::weak_ptr<Stay> stay_;  // set once, before anybody else has the engine
};

}  // namespace fabring_torch

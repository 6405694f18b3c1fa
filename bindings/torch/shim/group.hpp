#pragma once
// Group: the communicator of one process group. One engine serves all groups of a process whose ranks it has: the first
// group, usually the default one, makes it and meets the others by its c10d::Store; every other group is a subgroup of
// that engine, which costs a few values of the store and no connection.

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fabring/fabring.h"
#include "process.hpp"

namespace fabring_torch {

class SharedEngine;
class Stay;
struct Membership;

/// What c10d says about a group.
struct GroupRequest {
  c10::intrusive_ptr<c10d::Store> store;  ///< its keys are this group's alone
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds timeout{0};
  std::string name;
  std::vector<std::int64_t> global_ranks;  ///< empty: the default group, all ranks of the job
  bool keys_are_new = false;  ///< no group but this one uses the store's keys, and it never was in a life before
};

class Group {
 public:
  /// Meets the other ranks of the group, which must all call. Throws what failure.hpp says.
  static Membership open(const GroupRequest& request);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  /// Ends all groups of this process on all their ranks.
  static void abort_all(const std::string& reason);

  fabring_comm* comm() const { return comm_; }
  const GroupRequest& request() const { return request_; }
  /// The same on all ranks of the group, and on none of another or of one that was destroyed.
  const std::string& id() const { return id_; }
  /// Of the host, in memory that its ranks read and write directly where that pays (tensor_memory.hpp).
  at::Tensor tensor(std::int64_t size, const at::TensorOptions& options) const;
  /// The number in the job of a rank of the engine.
  std::int64_t job_rank(std::int32_t engine_rank) const;
  /// "tcp", "fabric ...": what the engine says it chose, a line each.
  std::string report() const;
  /// The value that the engine was made with.
  std::string setting(const std::string& name) const;

 private:
  Group(GroupRequest request, std::shared_ptr<SharedEngine> engine, fabring_comm* comm, std::string id);

  const Origin origin_;
  const GroupRequest request_;
  const std::shared_ptr<SharedEngine> engine_;
  fabring_comm* comm_;
  const std::string id_;
};

/// A rank's part in a group. `stay` goes last, and with it, maybe, the engine leaves.
struct Membership {
  std::shared_ptr<Stay> stay;
  std::shared_ptr<Group> group;
};

}  // namespace fabring_torch

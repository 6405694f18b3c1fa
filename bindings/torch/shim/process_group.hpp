#pragma once
// ProcessGroup: the c10d backend "fabring". Every method checks what it is given, describes it as operations of
// fabring.h and hands them to a Work; collectives.cpp has those that move or reduce, messages.cpp and
// monitored_barrier.cpp the rest.

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "group.hpp"
#include "process.hpp"
#include "versions.hpp"
#include "work.hpp"

namespace fabring_torch {

/// A type of its own because Python copies it: PyTorch's split_group and device meshes do.
struct GroupOptions final : c10d::Backend::Options {
  using c10d::Backend::Options::Options;
};

class ProcessGroup final : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<Tensors>;
  using WorkPointer = c10::intrusive_ptr<c10d::Work>;

  explicit ProcessGroup(GroupRequest request);
  ~ProcessGroup() override;

  const std::string getBackendName() const override { return "fabring"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
  void setTimeout(std::chrono::milliseconds timeout) override;

  // collectives.cpp
  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPointer allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPointer allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  WorkPointer reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;

  // gathering.cpp
  WorkPointer allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  WorkPointer allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                  const c10d::AllgatherOptions& options) override;
  WorkPointer allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) override;
  WorkPointer gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;

  // scattering.cpp
  WorkPointer scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& options) override;
  WorkPointer reduce_scatter(Tensors& outputs, TensorLists& inputs, const c10d::ReduceScatterOptions& options) override;
  WorkPointer _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                   const c10d::ReduceScatterOptions& options) override;
  WorkPointer reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::ReduceScatterOptions& options) override;
  WorkPointer alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_splits,
                            std::vector<std::int64_t>& input_splits, const c10d::AllToAllOptions& options) override;
  WorkPointer alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;

  // messages.cpp
  WorkPointer send(Tensors& tensors, int to, int tag) override;
  WorkPointer recv(Tensors& tensors, int from, int tag) override;
  WorkPointer recvAnysource(Tensors& tensors, int tag) override;
  WorkPointer barrier(const c10d::BarrierOptions& options) override;

  // monitored_barrier.cpp
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) override;

  // process_group.cpp
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return sequence_.load(); }
  c10d::ErrorType getError() override;
  /// What the calling thread begins from here on without waiting for it, it gets as one Work of endCoalescing(). The
  /// calls begin as they are made, and those that block do. supportsCoalescing() stays false, so that
  /// batch_isend_irecv gives a Work for each message.
  void startCoalescing() override;
  /// Null if it began nothing.
  WorkPointer endCoalescing() override;
  bool supportsSplitting() const override { return true; }
  c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                    const c10::intrusive_ptr<Options>& options) override;
  bool supportsShrinking() const override { return true; }
  /// The ranks that are not excluded call it. `flags`: 1 ends what is under way in this group on all its ranks.
  c10::intrusive_ptr<Backend> shrink(const std::vector<std::int64_t>& ranks_to_exclude, int flags,
                                     const c10::intrusive_ptr<Options>& options) override;
#if FABRING_TORCH_ASKS_FOR_TENSORS
  /// Of the host, whose devices have no index.
  bool supportsTensorAlloc(c10::DeviceIndex device) override { return device < 0; }
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;
#endif
  void abort() override;
  void shutdown() override;
  std::string report() const;
  std::string setting(const std::string& name) const;
  /// Of this group, the one that was lost first, if that has ended it; -1 otherwise.
  int lost_rank() const;
  /// That one, and those whom parts of this group have waited for in vain, ascending.
  std::vector<int> lost_ranks() const;
  /// The members' numbers at the start of the job, whatever PyTorch numbers them since; empty: all ranks.
  const std::vector<std::int64_t>& job_ranks() const { return request_.global_ranks; }

 private:
  /// The group, or an exception after shutdown() and in a child of fork().
  std::shared_ptr<Group> group() const { return membership().group; }
  Membership membership() const;
  fabring_operation describe_operation(fabring_collective collective, std::chrono::milliseconds timeout) const;
  WorkPointer start(Task task, bool asynchronous, bool counts = true);
  /// For a call whose arguments are refused here, as the engine does of those that it refuses itself: those
  /// who wait in it hear why. A collective, or that message.
  void tell_refused(const c10::Error& thrown, const fabring_operation* message = nullptr) const;
  void check_root(std::int64_t root, const char* title) const;
  /// A group of these ranks of this one, which alone call it; null if this rank is none of them.
  c10::intrusive_ptr<Backend> make_subgroup(const std::vector<int>& ranks, std::string name,
                                            std::chrono::milliseconds timeout);
  void add_allgather(Task& task, const Tensors& outputs, const at::Tensor& input,
                     std::chrono::milliseconds timeout) const;
  void add_allgather(Task& task, const at::Tensor& output, const at::Tensor& input,
                     std::chrono::milliseconds timeout) const;
  void add_reduce_scatter(Task& task, const at::Tensor& output, const at::Tensor& input,
                          const c10d::ReduceScatterOptions& options) const;
  WorkPointer message(Tensors& tensors, c10d::OpType type, int peer, int tag);

  const Origin origin_;
  const GroupRequest request_;
  const c10::intrusive_ptr<GroupOptions> options_;
  std::atomic<std::chrono::milliseconds> timeout_;
  std::atomic<std::uint64_t> sequence_{0};
  std::atomic<std::uint64_t> monitored_{0};       // monitored barriers so far
  std::atomic<std::uint64_t> monitored_kept_{0};  // on rank 0: the first of them of which the store has keys
  mutable std::mutex mutex_;
  Membership membership_;                             // under mutex_; empty after shutdown()
  std::optional<OpenGroup> open_;                     // under mutex_; until shutdown()
  std::map<std::vector<int>, std::uint64_t> splits_;  // under mutex_; how many groups of these ranks were split off
  std::set<int> waited_for_;                          // under mutex_; lost ones, by parts whose first rank they are
  std::map<std::thread::id, std::vector<WorkPointer>> coalescing_;  // under mutex_; threads after startCoalescing()
};

}  // namespace fabring_torch

#pragma once
// Work: one call on a process group, as c10d sees it: one or more operations of ours, what is copied when they are
// over, and a future. It keeps itself and its tensors alive until then, so that a Work nobody waits for is fine. Its
// group, and with it the engine, it keeps no longer, however long the program keeps the Work. A receive keeps no rank
// in the job: it ends when the last process group of the engine is shut down.
//
// Whoever waits drives the engine itself and finishes the Work in its own thread. Where nobody waits, the engine tells
// us from a thread of its own, which must not run other people's callbacks; a thread of this module (fabring-done)
// does.
//
// Tensors on a GPU: an operation is done when its result is in memory, and what is copied after it is waited for too,
// so whatever a stream is given after wait(), or in a callback of the future, sees it; and no tensor is used by a
// stream of ours once it is released here.
//
// In a child of fork() those who would wait, for the engine or for a lock that a thread of the parent had, are refused.

#include <ATen/core/ivalue.h>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fabring/fabring.h"
#include "group.hpp"
#include "process.hpp"
#include "tensors.hpp"

namespace fabring_torch {

/// What a Work is made of.
struct Task {
  c10d::OpType type = c10d::OpType::UNKNOWN;
  const char* title = nullptr;                ///< in PyTorch's profiler
  std::vector<fabring_operation> operations;  ///< begun together
  std::vector<fabring_tensor> tensors;        ///< of a grouped allreduce
  std::vector<at::Tensor> kept;               ///< memory the operations use
  Copies copies;
  std::vector<at::Tensor> outputs;  ///< result() and the future's value
  std::uint64_t sequence = 0;
  std::optional<at::Device> device;  ///< whose memory it is; none: the host's
};

class Work final : public c10d::Work {
 public:
  /// Begins it; with `wait` it is over on return, and has thrown if it failed. Throws what is known to be wrong at
  /// once.
  static c10::intrusive_ptr<Work> start(Membership membership, Task task, bool wait);
  Work(Membership membership, Task task);
  ~Work() override;

  /// Then the future is completed too, if perhaps not all of its callbacks have run, as with wait().
  bool isCompleted() override;
  bool isSuccess() const override;
  /// `timeout` 0: as long as the operation may take. Past it: DistBackendError, and the operation goes on.
  bool wait(std::chrono::milliseconds timeout) override;
  void synchronize() override;
  void abort() override;
  int sourceRank() const override;
  std::vector<at::Tensor> result() override { return task_.outputs; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  std::uint64_t getSequencenumber() const override { return task_.sequence; }

  /// For the end of the process: waits, for FABRING_LEAVE_TIMEOUT at most, until all collectives and sends are over
  /// that this process has begun, whoever keeps their Works. If some are not, all groups of this process end then, on
  /// all ranks. Receives are not waited for.
  static void let_end();
  /// Waits, for some seconds, until nothing is left to be finished by the threads of this module.
  static void settle();

  /// Finishes it, once; the engine is done with it. For the threads of this module.
  void finish_once();

 private:
  void complete_future(const std::exception_ptr& thrown);
  void tell_future_over();
  /// While one lives, membership_ and handles_ stay; false: they are gone already, because the Work is finished.
  class Use {
   public:
    explicit Use(Work& work);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    explicit operator bool() const { return there_; }

   private:
    Work& work_;
    bool there_;
  };

  void begin();
  static void told(void* work);
  bool all_done();
  std::exception_ptr failure();

  const Origin origin_;
  Membership membership_;               // as handles_: for those who have a Use, the last of whom lets go of both
  std::vector<fabring_work*> handles_;  // made by begin()
  Task task_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  std::atomic<int> source_{-1};
  bool future_over_ = false;  // completed, or it cannot be; under mutex_, as completed_, which comes before it

  std::mutex state_;
  std::size_t running_ = 0;        // operations the engine has not told us about; under state_
  int waiters_ = 0;                // threads in wait(), which will finish it; under state_
  bool finishing_ = false;         // under state_
  bool finished_ = false;          // under state_
  int uses_ = 0;                   // under state_
  c10::intrusive_ptr<Work> self_;  // while the engine may call told(); under state_
};

}  // namespace fabring_torch

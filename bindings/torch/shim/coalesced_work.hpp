#pragma once
// CoalescedWork: several calls on a process group as one, for those who put them between startCoalescing() and
// endCoalescing(). All of them are under way already; it only waits for all.

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "joint_future.hpp"

namespace fabring_torch {

class CoalescedWork final : public c10d::Work {
 public:
  using Parts = std::vector<c10::intrusive_ptr<c10d::Work>>;

  /// At least one part.
  CoalescedWork(int rank, Parts parts);

  bool isCompleted() override;
  bool isSuccess() const override;
  /// The first part's that has one.
  std::exception_ptr exception() const override;
  /// `timeout` is for all of them together. Throws what the first that failed throws, when none is left to wait for.
  bool wait(std::chrono::milliseconds timeout) override;
  void synchronize() override;
  void abort() override;
  /// Of all parts, one after the other, as the future has them too.
  std::vector<at::Tensor> result() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  std::uint64_t getSequencenumber() const override { return parts_.back()->getSequencenumber(); }

 private:
  /// All parts are over: so is their future, if somebody has asked for it.
  void complete_future();

  const Parts parts_;
  std::shared_ptr<JointFuture> together_;  // of getFuture(); under mutex_
};

}  // namespace fabring_torch

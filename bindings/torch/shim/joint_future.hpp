#pragma once
// JointFuture: the future of several Works as one. Who sees first that all of them are over completes it: a callback of
// theirs, or who has waited for all, who is not to find it incomplete. Kept by both.

#include <ATen/core/ivalue.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

namespace fabring_torch {

class JointFuture : public std::enable_shared_from_this<JointFuture> {
 public:
  using Future = c10::intrusive_ptr<c10::ivalue::Future>;

  /// `outputs`: its value, if none of `parts` fails.
  JointFuture(const std::vector<Future>& parts, std::vector<at::Tensor> outputs);
  /// Completes it when all parts are; called once, when a shared_ptr has it.
  void follow();
  /// All parts are completed. On return it is too, if perhaps not all of its callbacks have run.
  void complete();
  const Future& future() const { return future_; }

 private:
  void tell_over();

  const std::vector<Future> parts_;
  const std::vector<at::Tensor> outputs_;
  const Future future_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool begun_ = false;  // under mutex_
  bool over_ = false;   // completed, or it cannot be; under mutex_
};

}  // namespace fabring_torch

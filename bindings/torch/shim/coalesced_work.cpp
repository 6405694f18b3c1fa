#include "coalesced_work.hpp"

#include <algorithm>
#include <utility>

#include "interpreter.hpp"

namespace fabring_torch {

CoalescedWork::CoalescedWork(int rank, Parts parts)
    : c10d::Work(rank, c10d::OpType::COALESCED), parts_(std::move(parts)) {}

bool CoalescedWork::isCompleted() {
  const WithoutInterpreter without;
  if (!std::all_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->isCompleted(); })) return false;
  complete_future();
  return true;
}

bool CoalescedWork::isSuccess() const {
  return std::all_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->isSuccess(); });
}

std::exception_ptr CoalescedWork::exception() const {
  for (const auto& part : parts_)
    if (auto thrown = part->exception()) return thrown;
  return nullptr;
}

bool CoalescedWork::wait(std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds shortest(1);  // 0 would be without end
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::exception_ptr first;
  for (const auto& part : parts_) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    try {
      part->wait(timeout > kNoTimeout ? std::max(left, shortest) : kNoTimeout);
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) {
    (void)isCompleted();  // it may have been the last of `timeout` only
    std::rethrow_exception(first);
  }
  complete_future();
  return true;
}

void CoalescedWork::synchronize() {
  const WithoutInterpreter without;
  wait(kNoTimeout);
}

void CoalescedWork::abort() {
  for (const auto& part : parts_) part->abort();
}

std::vector<at::Tensor> CoalescedWork::result() {
  std::vector<at::Tensor> all;
  for (const auto& part : parts_) {
    const auto outputs = part->result();
    all.insert(all.end(), outputs.begin(), outputs.end());
  }
  return all;
}

c10::intrusive_ptr<c10::ivalue::Future> CoalescedWork::getFuture() {
  const std::lock_guard lock(mutex_);
  if (!together_) {
    std::vector<JointFuture::Future> futures;
    for (const auto& part : parts_) futures.push_back(part->getFuture());
    together_ = std::make_shared<JointFuture>(futures, result());
    together_->follow();
  }
  return together_->future();
}

void CoalescedWork::complete_future() {
  std::shared_ptr<JointFuture> together;
  {
    const std::lock_guard lock(mutex_);
    together = together_;
  }
  if (together) together->complete();
}

}  // namespace fabring_torch

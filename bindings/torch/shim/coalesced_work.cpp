#include "coalesced_work.hpp"

#include <ATen/core/ivalue.h>

#include <algorithm>
#include <utility>

#include "interpreter.hpp"

namespace fabring_torch {

CoalescedWork::CoalescedWork(int rank, Parts parts)
    : c10d::Work(rank, c10d::OpType::COALESCED), parts_(std::move(parts)) {}

bool CoalescedWork::isCompleted() {
  return std::all_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->isCompleted(); });
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
  if (first) std::rethrow_exception(first);
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
  const auto tensors = c10::ListType::create(c10::TensorType::get());
  c10::List<c10::intrusive_ptr<c10::ivalue::Future>> futures(c10::FutureType::create(tensors));
  std::vector<at::Device> devices;
  for (const auto& part : parts_) {
    const auto future = part->getFuture();
    devices.insert(devices.end(), future->devices().begin(), future->devices().end());
    futures.push_back(future);
  }
  // Not the one that collectAll() gives: its value is the futures, and it knows no device.
  auto all = c10::make_intrusive<c10::ivalue::Future>(tensors, std::move(devices));
  c10::collectAll(futures)->addCallback([all, outputs = result()](c10::ivalue::Future& done) {
    if (done.hasError())
      all->setError(done.exception_ptr());
    else
      all->markCompleted(c10::IValue(outputs));
  });
  return all;
}

}  // namespace fabring_torch

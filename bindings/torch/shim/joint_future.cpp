#include "joint_future.hpp"

#include <c10/core/DeviceGuard.h>
#include <c10/util/Exception.h>

#include <exception>
#include <optional>
#include <utility>

#include "devices.hpp"

namespace fabring_torch {
namespace {

// Not the one that collectAll() gives: its value is the futures, and it knows no device.
JointFuture::Future make_future(const std::vector<JointFuture::Future>& parts) {
  std::vector<c10::Device> devices;
  for (const auto& part : parts) devices.insert(devices.end(), part->devices().begin(), part->devices().end());
  return c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()), std::move(devices));
}

}  // namespace

JointFuture::JointFuture(const std::vector<Future>& parts, std::vector<at::Tensor> outputs)
    : parts_(parts), outputs_(std::move(outputs)), future_(make_future(parts)) {
  // The first of its callbacks, so that nobody waits for those of the program.
  future_->addCallback([this](c10::ivalue::Future&) { tell_over(); }, /*uses_future=*/false);
}

void JointFuture::follow() {
  c10::List<Future> parts(c10::FutureType::create(c10::ListType::create(c10::TensorType::get())));
  for (const auto& part : parts_) parts.push_back(part);
  c10::collectAll(parts)->addCallback([self = shared_from_this()](c10::ivalue::Future&) { self->complete(); });
}

void JointFuture::complete() {
  {
    std::unique_lock lock(mutex_);
    if (begun_) {
      changed_.wait(lock, [&] { return over_; });
      return;
    }
    begun_ = true;
  }
  c10::OptionalDeviceGuard guard;  // a future runs its callbacks where it was completed
  try {
    const auto& devices = future_->devices();
    const auto device = devices.empty() ? std::nullopt : std::optional(devices.front());
    if (device) guard.reset_device(*device);
    const BesideCaptures beside(device);
    std::exception_ptr first;
    for (const auto& part : parts_)
      if (!first) first = part->exception_ptr();
    if (first)
      future_->setError(first);
    else
      future_->markCompleted(c10::IValue(outputs_));
  } catch (const std::exception& error) {
    TORCH_WARN("fabring: the future of finished operations, or a callback of it, has failed: ", error.what());
  } catch (...) {
    TORCH_WARN("fabring: the future of finished operations, or a callback of it, has failed");
  }
  tell_over();  // if it could not be completed
}

void JointFuture::tell_over() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
}

}  // namespace fabring_torch

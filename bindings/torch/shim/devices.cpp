#include "devices.hpp"

#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <map>
#include <mutex>

namespace fabring_torch {

namespace {

// The driver's, where a process has loaded it: torch may be one without CUDA.
using ExchangeCaptureMode = int (*)(int*);
ExchangeCaptureMode exchange_capture_mode() {
  static const auto found = []() -> ExchangeCaptureMode {
    void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    return driver == nullptr
               ? nullptr
               : reinterpret_cast<ExchangeCaptureMode>(dlsym(driver, "cuThreadExchangeStreamCaptureMode"));
  }();
  return found;
}

// One of high priority for each GPU, and ever the same: of the pool's streams, which programs are given in turn, the
// fewest are these, and a copy would wait for whatever a program had given its own.
c10::Stream stream_for_copies(const at::Device& device) {
  static std::mutex mutex;
  static std::map<c10::DeviceIndex, c10::Stream> streams;
  const std::lock_guard lock(mutex);
  auto found = streams.find(device.index());
  if (found == streams.end()) {
    const c10::impl::VirtualGuardImpl guard(device.type());
    found = streams.emplace(device.index(), guard.getStreamFromGlobalPool(device, /*isHighPriority=*/true)).first;
  }
  return found->second;
}

}  // namespace

BesideCaptures::BesideCaptures(const std::optional<at::Device>& device) {
  if (!device) return;
  if (const auto exchange = exchange_capture_mode()) exchanged_ = exchange(&mode_) == 0;
}

BesideCaptures::~BesideCaptures() {
  if (exchanged_) exchange_capture_mode()(&mode_);
}

std::optional<at::Device> device_of(const std::vector<at::Tensor>& tensors) {
  std::optional<at::Device> found;
  for (const at::Tensor& tensor : tensors) {
    TORCH_CHECK_VALUE(!found || *found == tensor.device(), "fabring: a call has tensors on ", *found, " and on ",
                      tensor.device(), "; all tensors of a call are on one device");
    found = tensor.device();
  }
  return found && found->is_cuda() ? found : std::nullopt;
}

void place_on(const std::optional<at::Device>& device, std::vector<fabring_operation>& operations) {
  void* stream = nullptr;
  if (device && !operations.empty())
    stream = c10::impl::VirtualGuardImpl(device->type()).getStream(*device).native_handle();
  for (fabring_operation& operation : operations) {
    operation.stream = stream;
    operation.memory = device ? FABRING_MEMORY_DEVICE : FABRING_MEMORY_HOST;
    operation.device = device ? device->index() : 0;
  }
}

void make_copies(const std::optional<at::Device>& device, const Copies& copies) {
  if (copies.empty()) return;
  const c10::NoGradGuard no_grad;
  c10::OptionalStreamGuard guard;
  if (device) guard.reset_stream(stream_for_copies(*device));
  for (const auto& [to, from] : copies) {
    // Made in inference mode, which is a matter of threads: this one may be none of the program's.
    std::optional<c10::InferenceMode> inference;
    if (to.is_inference()) inference.emplace();
    to.copy_(from);
  }
  if (device) finish_stream(*device);
}

// The current stream may be captured into a graph by now, and the default one is of no use while a blocking stream is:
// to query them is illegal then, in every mode, and ends the capture (CUDA C++ Programming Guide, "Prohibited and
// Unhandled Operations").
void check_device(const at::Device& device) {
  (void)c10::impl::VirtualGuardImpl(device.type()).queryStream(stream_for_copies(device));
}

void finish_stream(const at::Device& device) {
  const c10::impl::VirtualGuardImpl guard(device.type());
  guard.synchronizeStream(guard.getStream(device));
}

}  // namespace fabring_torch

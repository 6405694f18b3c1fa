#include "devices.hpp"

#include <c10/core/InferenceMode.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

namespace fabring_torch {

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
  const at::NoGradGuard no_grad;
  c10::OptionalStreamGuard guard;
  if (device) guard.reset_stream(c10::impl::VirtualGuardImpl(device->type()).getStreamFromGlobalPool(*device));
  for (const auto& [to, from] : copies) {
    // Made in inference mode, which is a matter of threads: this one may be none of the program's.
    std::optional<c10::InferenceMode> inference;
    if (to.is_inference()) inference.emplace();
    to.copy_(from);
  }
  if (device) finish_stream(*device);
}

void finish_stream(const at::Device& device) {
  const c10::impl::VirtualGuardImpl guard(device.type());
  guard.synchronizeStream(guard.getStream(device));
}

}  // namespace fabring_torch

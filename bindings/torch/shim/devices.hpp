#pragma once
// Tensors on GPUs: which one a call is about, the current stream that it is ordered on, and what must be over before it
// counts as done. Uses what torch has for every kind of device, so it is built against any torch, with CUDA or without.

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <optional>
#include <vector>

#include "copies.hpp"
#include "fabring/fabring.h"

namespace fabring_torch {

/// The GPU that these tensors are on; none if all are the host's. Throws if they are on several devices.
std::optional<at::Device> device_of(const std::vector<at::Tensor>& tensors);

/// Says so in operations of such tensors, so that nobody has to ask the driver. Those on a GPU are ordered on its
/// current stream.
void place_on(const std::optional<at::Device>& device, std::vector<fabring_operation>& operations);

/// Makes the copies that follow an operation; they are made on return. Not on the current stream: what that was given
/// since the operation began may take long, or wait for this very operation.
void make_copies(const std::optional<at::Device>& device, const Copies& copies);

/// While it lives, what this thread asks of a GPU does not disturb a capture into a CUDA graph by another thread.
class BesideCaptures {
 public:
  explicit BesideCaptures(const std::optional<at::Device>& device);
  ~BesideCaptures();
  BesideCaptures(const BesideCaptures&) = delete;
  BesideCaptures& operator=(const BesideCaptures&) = delete;

 private:
  int mode_ = 2;  // relaxed
  bool exchanged_ = false;
};

/// Throws if the GPU is broken, as after a failed assertion of a kernel: nothing more can be done on it.
void check_device(const at::Device& device);

/// Waits for what the current stream of this thread was given.
void finish_stream(const at::Device& device);

}  // namespace fabring_torch

#pragma once
// TensorMemory: of one engine, memory that the ranks of the host read and write directly, for the tensors that
// PyTorch asks the group for. What a tensor gives back is kept for the next one of its size: FSDP2 asks for the same
// few again and again, and for a small layer sharing memory anew takes longer than gathering the layer.

#include <ATen/ATen.h>

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "fabring/fabring.h"
#include "process.hpp"

namespace fabring_torch {

class TensorMemory : public std::enable_shared_from_this<TensorMemory> {
 public:
  TensorMemory() = default;
  TensorMemory(const TensorMemory&) = delete;
  TensorMemory& operator=(const TensorMemory&) = delete;

  /// Like at::empty(), and so it is where the tensor is small, or not the host's, or there is no such memory left. It
  /// may outlive the engine.
  at::Tensor tensor(fabring_engine* engine, std::int64_t size, const at::TensorOptions& options);
  /// Keeps nothing any more: the engine ends.
  void close();

 private:
  void* take(fabring_engine* engine, std::size_t bytes);
  void give_back(void* memory, std::size_t bytes);
  void free_kept();

  const Origin origin_;
  std::mutex mutex_;
  bool closed_ = false;                             // under mutex_
  std::map<std::size_t, std::vector<void*>> kept_;  // under mutex_; by their size
};

}  // namespace fabring_torch

#pragma once
// DeviceUnderTest: a GPU, a queue on it and a way to wait for it, for programs that try kernels on the real thing.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "device/cuda/cuda_runtime.hpp"

namespace fabring::gpu_check {

using Clock = std::chrono::steady_clock;

[[noreturn]] inline void give_up(const std::string& why, int code = 1) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::exit(code);
}

inline void require(const Status& status, const char* what) {
  if (!status.ok()) give_up(std::string(what) + ": " + status.message());
}

template <class T>
T required(Result<T> result, const char* what) {
  if (!result) give_up(std::string(what) + ": " + result.error().message());
  return std::move(*result);
}

class DeviceUnderTest {
 public:
  /// Device `wanted` modulo how many there are. Ends the program with 3 if there is no GPU.
  explicit DeviceUnderTest(int wanted) : runtime(make_cuda_runtime()) {
    if (!runtime) give_up("this program was built without GPU memory (FABRING_WITH_CUDA=OFF)", 3);
    if (const Status begun = runtime->begin(); !begun.ok()) give_up(begun.message(), 3);
    facts = required(runtime->devices(), "the list of GPUs");
    if (facts.empty()) give_up("no GPU: the driver shows none", 3);
    device = wanted % static_cast<int>(facts.size());
    queue = required(runtime->open_queue(device), "a queue");
    if (const Status loaded = runtime->load_kernels(device); !loaded.ok()) give_up(loaded.message(), 3);
  }

  std::byte* allocate(std::size_t bytes) { return required(runtime->allocate(device, bytes), "memory of the GPU"); }

  std::byte* allocate_pinned(std::size_t bytes) {
    std::byte* const block = runtime->allocate_pinned(bytes);
    if (block == nullptr) give_up("no pinned memory");
    return block;
  }

  /// Until all that was posted is over.
  void finish() {
    require(queue->post_mark(), "a mark");
    ++marks_;
    wait();
  }

  /// As the engine brings small data to the host and back, waited for.
  void copy_at_once(std::span<const DeviceCopy> copies) {
    require(queue->post_copies_and_mark(copies), "copies");
    ++marks_;
    wait();
  }

  void copy(void* to, const void* from, std::size_t bytes) {
    require(queue->post_copy(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes), "a copy");
  }

  std::shared_ptr<DeviceRuntime> runtime;
  std::vector<DeviceFacts> facts;
  int device = 0;
  std::unique_ptr<DeviceQueue> queue;

 private:
  void wait() {
    const auto deadline = Clock::now() + std::chrono::seconds(60);
    for (int looks = 0; required(queue->reached(), "waiting for the GPU") < marks_; ++looks)
      if (looks % 1024 == 1023) {
        if (Clock::now() > deadline) give_up("the GPU has not finished in 60 s");
        std::this_thread::yield();
      }
  }

  std::uint64_t marks_ = 0;
};

/// What the program does.
int check_kernels(bool quick);
int measure_kernels();
/// `pieces`: memory that is mapped piece by piece. `figures`: measures, too.
int check_sharing(int processes, bool pieces, bool figures);

}  // namespace fabring::gpu_check

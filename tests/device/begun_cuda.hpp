#pragma once
// BegunCuda: a test over the tests' own libcuda.so.1, which is as strict as the documentation: no call before cuInit,
// none without a current context, no query that could break a capture. Each test is a process of its own.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <thread>

#include "device/cuda/cuda_runtime.hpp"

namespace fabring {

inline void load_driver() { ASSERT_NE(dlopen(FAKE_CUDA, RTLD_NOW), nullptr) << dlerror(); }

template <class Function>
Function driver_function(const char* name) {
  return reinterpret_cast<Function>(dlsym(dlopen(FAKE_CUDA, RTLD_NOW), name));
}

/// Where the host can see the memory of the device.
inline std::byte* see(const void* at) {
  return static_cast<std::byte*>(driver_function<void* (*)(const void*)>("fake_cuda_see")(at));
}

/// The device, and what waits for it.
inline void stand_still(bool on) { driver_function<void (*)(int)>("fake_cuda_stand_still")(on ? 1 : 0); }

/// Does this end while the device stands still? It goes on if not.
template <class Body>
bool ends_while_it_stands_still(const Body& body) {
  stand_still(true);
  auto ended = std::async(std::launch::async, body);
  const bool in_time = ended.wait_for(std::chrono::seconds(5)) == std::future_status::ready;
  if (!in_time) stand_still(false);
  ended.get();
  return in_time;
}

/// For what another thread does.
template <class Condition>
bool becomes_true(const Condition& condition) {
  const auto last = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition() && std::chrono::steady_clock::now() < last) std::this_thread::yield();
  return condition();
}

inline std::size_t pinned_bytes() { return driver_function<std::size_t (*)()>("fake_cuda_pinned_bytes")(); }

inline bool wait_for(DeviceQueue& queue, std::uint64_t mark) {
  for (int i = 0; i < 1'000'000; ++i) {
    const auto reached = queue.reached();
    if (!reached) return false;
    if (*reached >= mark) return true;
  }
  return false;
}

class BegunCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    load_driver();
    ASSERT_TRUE(runtime->begin().ok()) << runtime->begin().message();
  }
  std::shared_ptr<DeviceRuntime> runtime = make_cuda_runtime();
};

}  // namespace fabring

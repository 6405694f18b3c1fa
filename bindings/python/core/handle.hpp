#pragma once
// Handle: owns one handle of the C API, and knows which process it belongs to. In a child of fork() the engine's
// threads are gone and its locks may be held for ever, so a handle from before the fork is refused when used and leaked
// when dropped; a child may make an engine of its own.

#include <nanobind/nanobind.h>

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "bindings/fork_origin.hpp"
#include "bindings/python/core/failure.hpp"
#include "fabring/fabring.h"

namespace fabring::python {

template <class T, fabring_status_code (*free_it)(T*)>
class Handle {
 public:
  explicit Handle(T* handle) : handle_(handle) {}
  Handle(Handle&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)), origin_(other.origin_) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { release(); }

  /// The handle for a call; raises in a child of fork() and after release().
  T* use() const {
    if (!origin_.is_here()) raise_forked();
    if (handle_ == nullptr) raise_released();
    return handle_;
  }
  bool usable() const { return handle_ != nullptr && origin_.is_here(); }

  /// Frees it. May wait (an engine leaves its job), so the interpreter goes on meanwhile.
  void release() {
    T* handle = take();
    if (handle == nullptr) return;
    nanobind::gil_scoped_release others_run;
    (void)free_it(handle);
  }

 protected:
  /// The handle, for who frees it; null if there is nothing to free.
  T* take() {
    T* handle = std::exchange(handle_, nullptr);
    return origin_.is_here() ? handle : nullptr;
  }

 private:
  T* handle_;
  bindings::ForkOrigin origin_;
};

/// Of an engine, which calls may still use that let other threads of the interpreter run: these may release it.
class EngineHandle : public Handle<fabring_engine, fabring_engine_destroy> {
 public:
  using Handle::Handle;
  ~EngineHandle() { release(); }

  /// As long as this lives release() waits. Taken before the interpreter is let go.
  [[nodiscard]] std::shared_lock<std::shared_mutex> stay() const { return std::shared_lock(in_use_); }

  void release() {
    fabring_engine* handle = take();
    if (handle == nullptr) return;
    nanobind::gil_scoped_release others_run;
    { const std::unique_lock all_gone(in_use_); }
    (void)fabring_engine_destroy(handle);
  }

 private:
  mutable std::shared_mutex in_use_;
};
using CommHandle = Handle<fabring_comm, fabring_comm_free>;
using WorkHandle = Handle<fabring_work, fabring_work_free>;
using MemoryHandle = Handle<void, fabring_mem_free>;
using PreparedHandle = Handle<fabring_prepared, fabring_prepared_free>;

}  // namespace fabring::python

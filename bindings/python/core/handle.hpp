#pragma once
// Handle: owns one handle of the C API, and knows which process it belongs to. In a child of fork() the engine's
// threads are gone and its locks may be held for ever, so a handle from before the fork is refused when used and leaked
// when dropped; a child may make an engine of its own.

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>

#include "bindings/python/core/failure.hpp"
#include "fabring/fabring.h"

namespace fabring::python {

/// How many forks lie between the process that loaded the module and this one.
std::uint64_t fork_generation();
/// Counts forks from now on. Called once, when the module is loaded.
void watch_forks();

template <class T, fabring_status_code (*free_it)(T*)>
class Handle {
 public:
  explicit Handle(T* handle) : handle_(handle), generation_(fork_generation()) {}
  Handle(Handle&& other) noexcept : handle_(other.handle_), generation_(other.generation_) { other.handle_ = nullptr; }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { release(); }

  /// The handle for a call; raises in a child of fork() and after release().
  T* use() const {
    if (generation_ != fork_generation()) raise_forked();
    if (handle_ == nullptr) raise_released();
    return handle_;
  }
  bool usable() const { return handle_ != nullptr && generation_ == fork_generation(); }

  /// Frees it. May wait (an engine leaves its job), so the interpreter goes on meanwhile.
  void release() {
    T* handle = handle_;
    handle_ = nullptr;
    if (handle == nullptr || generation_ != fork_generation()) return;
    nanobind::gil_scoped_release others_run;
    (void)free_it(handle);
  }

 private:
  T* handle_;
  std::uint64_t generation_;
};

using EngineHandle = Handle<fabring_engine, fabring_engine_destroy>;
using CommHandle = Handle<fabring_comm, fabring_comm_free>;
using WorkHandle = Handle<fabring_work, fabring_work_free>;
using MemoryHandle = Handle<void, fabring_mem_free>;
using PreparedHandle = Handle<fabring_prepared, fabring_prepared_free>;

}  // namespace fabring::python

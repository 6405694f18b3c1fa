#pragma once
// What the parts of the fake driver share: the device and who uses it how.

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "device/cuda/driver.hpp"
#include "tests/support/fake_device.hpp"

namespace fabring::cuda {
struct CUctx_st {
  int device = 0;
  int users = 0;
};
struct CUevent_st {
  Context context;
  std::unique_ptr<DeviceEvent> at;
};
struct CUfunc_st {
  std::string name;
  fixture::HostKernel kernel;  // null: the one that copies
};
}  // namespace fabring::cuda

using namespace fabring::cuda;
using fabring::MemoryKind;
using fabring::fixture::FakeDevice;

namespace fake_cuda {

inline FakeDevice* device = nullptr;  // for good: it has a thread
inline pid_t owner = 0;
inline auto& contexts = *new std::vector<CUctx_st>();
inline auto& other_contexts = *new std::vector<std::unique_ptr<CUctx_st>>();  // of the program
inline long copies_left = -1;
inline std::atomic<unsigned long> calls{0};  // that need a context
inline thread_local std::vector<Context> current;
inline thread_local int capture_mode = 0;

// For good, as a thread may close memory while the process ends: that is mapped piece by piece.
inline std::mutex mapped_mutex;
inline auto& pieces = *new std::map<Address, int>();            // and the descriptor of each
inline auto& reserved = *new std::map<Address, std::size_t>();  // for pieces

// Who else's kernels reach it: of what was mapped or opened, whose at all.
inline auto& let_in = *new std::map<Address, std::set<int>>();  // by where a piece or what was opened begins
inline auto& peers = *new std::set<std::pair<int, int>>();      // which context reaches which device's other memory

inline bool in_pieces(const void* at) {
  const std::lock_guard lock(mapped_mutex);
  return pieces.contains(reinterpret_cast<Address>(at));
}

inline long number(const char* name, long otherwise) {
  const char* const text = std::getenv(name);
  return text != nullptr ? std::strtol(text, nullptr, 10) : otherwise;
}

inline bool ready() { return device != nullptr && owner == ::getpid(); }

inline Answer check() {
  ++calls;
  if (!ready()) return not_initialized;
  return current.empty() ? invalid_context : success;
}

inline Answer answer_of(const fabring::Status& status) { return status.ok() ? success : illegal_address; }

}  // namespace fake_cuda

using namespace fake_cuda;

#define FAKE extern "C" __attribute__((visibility("default")))

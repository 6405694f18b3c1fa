#pragma once
// DeviceRuntime: what Fabring needs of the GPUs of a machine, as one small interface: where memory lives, memory that
// copies run fast from, copies that end later, and moments in a caller's stream. device/cuda has it over the CUDA
// driver; tests/support has a fake whose memory the processor may not touch and whose copies end late, in any order.
//
// A copy or a kernel is posted and completes later, as a send does; nothing here blocks. Queues belong to Fabring and
// hold nothing that waits: neither for a peer nor for a caller's stream. So whatever synchronises a whole device (a
// free, the first launch of a kernel, the legacy stream) waits for our copies for a moment at most, and never for ever.
//
// Threads: everything may be called from any thread; one queue from one thread at a time. The caller's current device
// and its stream captures are left as they were. Errors: device_error, with the runtime's words and what to do.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/device_share.hpp"
#include "fabring/status.hpp"
#include "fabring/types.hpp"

namespace fabring {

enum class MemoryKind : std::uint8_t {
  host,     ///< the processor reads and writes it, pinned or not
  device,   ///< memory of a GPU: only copies and kernels reach it
  managed,  ///< migrates between both; treated as memory of the device
};

/// What is at an address.
struct MemoryFacts {
  MemoryKind kind = MemoryKind::host;
  int device = -1;                  ///< whose memory, as the runtime numbers devices in this process
  const std::byte* base = nullptr;  ///< of the allocation; null: not known
  std::size_t bytes = 0;            ///< of the allocation
};

/// What is at an address, for a network card that is to read and write it (GPUDirect).
struct CardFacts {
  int device = -1;
  const std::byte* base = nullptr;  ///< of the allocation; null: not known
  std::size_t bytes = 0;            ///< of the allocation
  std::uint64_t number = 0;         ///< which no other allocation of this process ever has; 0: pieces come and go there
};

/// A moment in a stream.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
  /// Has everything before it run? Errors: device_error if some of that failed.
  virtual Result<bool> reached() = 0;
};

/// to[i] = sources[0][i] (op) sources[1][i] (op) ... on a device, to the last bit as reduce() of the processor does it
/// (collectives/reduce/reduce.hpp); 1 to 64 sources, in memory of any device or host that this device reaches. `to` may
/// be one of the sources (the same pointer) but may not overlap one otherwise.
struct DeviceReduction {
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;  ///< any that supports() allows but user; premul_sum adds
  std::byte* to = nullptr;
  std::span<const std::byte* const> sources;
  std::size_t count = 0;  ///< elements
  int ranks = 1;          ///< avg: what the rounded sum is divided by, as finish_average() does it
};

/// Either side in memory of a device or of the host.
struct DeviceCopy {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t bytes = 0;
};

/// What post_copies_and_mark() has a kernel copy, at most: beyond it the copy engines are as quick, and leave the
/// processors of the device to the program.
inline constexpr std::size_t most_bytes_by_kernel = std::size_t{64} << 10;

/// What a device does in the order it was posted.
class DeviceQueue {
 public:
  virtual ~DeviceQueue() = default;
  /// Copies later, between memory of devices and of the host. Both sides must stay until a mark behind it is reached.
  virtual Status post_copy(std::byte* to, const std::byte* from, std::size_t bytes) = 0;
  /// Likewise. Errors: what load_kernels() says; invalid_argument for what no kernel can do.
  virtual Status post_reduce(const DeviceReduction& what) = 0;
  /// to[i] = from[i] * *factor, as scale() of the processor. The factor is read now.
  virtual Status post_scale(DataType type, std::byte* to, const std::byte* from, const void* factor,
                            std::size_t count) = 0;
  /// Copies and a mark behind them. A few small ones, two or more, are one kernel that says itself that it is over, if
  /// the device's kernels are loaded: so all of it must be memory that kernels reach, which of the host's only
  /// allocate_pinned() gives. Errors: as of post_copy(); the mark is not set, but some may have been posted.
  virtual Status post_copies_and_mark(std::span<const DeviceCopy> copies) = 0;
  /// Marks are numbered from 1; one is reached when all that was posted before it is done.
  virtual Status post_mark() = 0;
  /// The last mark that was reached.
  virtual Result<std::uint64_t> reached() = 0;
};

/// One line about a device, for people.
struct DeviceFacts {
  int device = 0;
  std::string name;       ///< "NVIDIA H200"
  std::string pci;        ///< "0000:18:00.0"
  std::string attribute;  ///< "compute capability 9.0, 139 GiB"
  /// Does the work of several processes run at once (MPS), or do they take turns? Nothing: the driver does not say.
  std::optional<bool> side_by_side;
};

/// Of these each device has its own: null, and what CUDA calls CU_STREAM_LEGACY (1) and CU_STREAM_PER_THREAD (2).
inline bool is_default_stream(const void* stream) { return reinterpret_cast<std::uintptr_t>(stream) <= 2; }

class DeviceRuntime {
 public:
  virtual ~DeviceRuntime() = default;

  /// Does this process use devices by now? While it does not, all memory is the host's. Costs next to nothing.
  virtual bool in_use() = 0;
  /// Must addresses be looked up? Also where the program has loaded a driver that Fabring cannot use: what that gave it
  /// is not the host's.
  virtual bool looks_up() { return in_use(); }
  /// Errors: device_error for an address that is neither the host's nor of a living allocation of a device; unavailable
  /// for one that is not the host's where the driver cannot be used.
  virtual Result<MemoryFacts> look_up(const void* at) = 0;

  /// What the stream (a CUstream) has been given up to now. `device` is the buffer's, for the default streams.
  /// Errors: invalid_argument for a device that there is not, or while this process does not use devices; unsupported
  /// while the stream is being captured into a graph.
  virtual Result<std::unique_ptr<DeviceEvent>> record(int device, void* stream) = 0;
  virtual Result<std::unique_ptr<DeviceQueue>> open_queue(int device) = 0;
  /// Was this built with kernels at all? load_kernels() may still find none for a device.
  virtual bool has_kernels() = 0;
  /// Makes post_reduce() and post_scale() ready on this device: the first time takes milliseconds, and may wait for
  /// what the program has the device do. Errors: unavailable, saying why this device has no kernels; out_of_memory, as
  /// long as it has no room for them.
  virtual Status load_kernels(int device) = 0;

  /// Host memory that devices copy from and to at full speed; null if there is none.
  virtual std::byte* allocate_pinned(std::size_t bytes) = 0;
  /// Sooner or later, by a thread of its own: never waits for the driver.
  virtual void free_pinned(std::byte* block) = 0;
  /// From now on what is freed, or would be let go, stays for what this process allocates later. To free anything waits
  /// for all that a device has to do, which may be for ever once a stream of the program stands still.
  virtual void keep_what_is_freed() = 0;
  /// Nothing that this engine knows of stands still any more: what is freed from now on is freed, as before
  /// keep_what_is_freed(). Never waits for the driver.
  virtual void free_again() = 0;

  // Memory that network cards read and write.
  /// Errors: device_error for what is no living allocation of a device; unsupported for one that no card may reach.
  virtual Result<CardFacts> look_up_for_cards(const std::byte* at) = 0;
  /// A dmabuf of these bytes, which are whole pages of the host's size. Errors: unsupported.
  virtual Result<Descriptor> export_pages(const std::byte* at, std::size_t bytes) = 0;
  /// Does this device see all that a card has written once the card says that it has?
  virtual bool sees_remote_writes(int device) = 0;
  /// The one that this thread uses, or else one that this process uses; -1: none. None is begun with.
  virtual int device_in_use() = 0;

  // Memory that several processes of a host use: what one shares another opens, and copies and kernels of its device
  // then read and write it. Who shares must not free the memory before all who opened it have let go.
  /// Errors: unsupported, saying why no other process can have it.
  virtual Result<DeviceShare::Facts> share(const std::byte* at, std::size_t bytes) = 0;
  /// A descriptor for each piece of what was shared here; none if it has no pieces. Errors: unsupported, also for
  /// pieces that are not there any more.
  virtual Result<std::vector<Descriptor>> export_pieces(const DeviceShare::Facts& facts) = 0;
  /// For work of `device`. What comes back lies where share() was asked; the same memory is mapped once, and stays
  /// mapped for a while after its last user. Errors: unsupported if this device cannot reach it, unavailable for pieces
  /// that came without descriptors and are not mapped here (any more), device_error, invalid_argument for facts that
  /// contradict themselves.
  virtual Result<std::shared_ptr<std::byte>> open_share(int device, const DeviceShare& share) = 0;
  /// This process has ended, or nothing comes from it any more: what stays mapped of its memory is let go.
  virtual void forget(const ProcessName& process) = 0;

  // For tools, which have no program around them that does it.
  /// Begins to use devices. Errors: unavailable, saying why there is none.
  virtual Status begin() = 0;
  virtual Result<std::vector<DeviceFacts>> devices() = 0;
  virtual Result<std::byte*> allocate(int device, std::size_t bytes) = 0;
  virtual void free(int device, std::byte* block) = 0;
};

}  // namespace fabring

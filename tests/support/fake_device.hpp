#pragma once
// FakeDevice: a GPU for tests, made of memory and chance. What it hands out is mapped without access, so that a
// processor that touches it crashes; the fake itself, and tests through see(), work on a second mapping of the same
// memory. Copies, kernels and what tests give to streams run later, a little at each poll and in pieces (a kernel
// thread by thread), in an order that comes from the seed: each queue and stream in its own order, all of them
// interleaved. So whoever uses a result before it is over, or its memory again too early, sees wrong bytes.
//
//   auto device = std::make_shared<FakeDevice>(seed);
//   std::byte* buffer = *device->allocate(0, 1000);
//   void* stream = device->open_stream(0);
//   device->enqueue(stream, [&] { std::memset(device->see(buffer), 1, 1000); });   // some time later
//
// Threads: any.

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "device/cuda/kernels/copies.hpp"
#include "device/device_runtime.hpp"
#include "tests/support/host_kernels.hpp"

namespace fabring::fixture {

class FakeDevice final : public DeviceRuntime {
 public:
  explicit FakeDevice(std::uint64_t seed, int devices = 1);
  ~FakeDevice() override;
  FakeDevice(const FakeDevice&) = delete;
  FakeDevice& operator=(const FakeDevice&) = delete;

  // What a test does.
  /// The same byte, where a processor may touch it.
  std::byte* see(const void* at) const;
  void* open_stream(int device);
  /// What null is for buffers of this device, to enqueue() and hold().
  void* default_stream(int device);
  /// Runs some time later, in the stream's order. It must not call the device but for see().
  void enqueue(void* stream, std::function<void()> kernel);
  Status copy(void* stream, std::byte* to, const std::byte* from, std::size_t bytes);
  Status launch(void* stream, HostKernel kernel, const cuda::kernels::FoldTask& task, std::size_t element_bytes);
  /// Small copies by a kernel that tells; without words to tell by, the stream's next mark is reached when it is over.
  Status launch_copies(void* stream, const cuda::kernels::CopyTask& task);
  /// Has the stream done all it was given? As a look at any event, this lets some time pass.
  Result<bool> is_idle(void* stream);
  int device_of(void* stream);
  bool captures(void* stream);
  /// The stream stands still from here on, until release().
  void hold(void* stream);
  void release(void* stream);
  void capture(void* stream, bool on);
  /// Never returns: runs what is in front of kernels that tell, and these, as a GPU that nobody looks at does. With it
  /// the device must live as long as the process.
  [[noreturn]] void live();
  /// Runs everything that can run.
  void synchronize();
  /// Nothing runs while it does.
  void stand_still(bool on);
  /// No queue of Fabring's runs, but streams do: as while a kernel of the program holds the whole device.
  void hold_queues(bool on);
  /// Waits until it does not: as calls of the driver that wait for the device.
  void wait_while_still();
  /// How many do so.
  int waiting() const { return waiting_; }
  /// From now on no more memory of the host can be pinned, or again.
  void refuse_to_pin(bool on) { refuses_to_pin_ = on; }
  /// From now on the device has no memory left, or again.
  void refuse_to_allocate(bool on) { refuses_to_allocate_ = on; }
  /// From now on every call fails, as after a kernel that went wrong.
  void break_down();
  /// A part of another process's memory becomes this device's too, for as long as it lives: memory that a descriptor is
  /// of, from `offset` on. Null if it cannot be mapped.
  std::byte* adopt(int descriptor, std::size_t offset, std::size_t bytes, int device, std::uint64_t number);
  /// The same, all of it at a place in what was reserved: pieces side by side are one memory.
  std::byte* reserve(std::size_t bytes);
  bool adopt_at(std::byte* at, int descriptor, std::size_t bytes, int device);
  void disown(std::byte* at);
  void free_reserved(std::byte* at);
  /// Where the allocation lies in the descriptor of the fake's own memory.
  int descriptor() const { return memory_; }
  std::size_t place_of(const std::byte* at) const { return static_cast<std::size_t>(at - front_); }
  /// What no other allocation of this process has; 0 if there is none at this address.
  std::uint64_t number_of(const void* at) const;

  /// As a build without nvcc, or a GPU that is too old.
  void without_kernels() { has_kernels_ = false; }
  /// The n-th copy from now (0: the next) is refused; others are not.
  void refuse_copy(int n) { refuse_ = n; }
  /// So many of a hundred shares cannot be opened from now on, as between GPUs that do not reach each other.
  void refuse_to_open(unsigned percent) { unopenable_ = percent; }
  /// So many of a hundred allocations consist of pieces from now on: others need descriptors to open them, and again
  /// when what they opened was let go, which may be at any time unless they `stay_open`.
  void allocate_in_pieces(unsigned percent, bool stay_open = false) {
    in_pieces_ = percent;
    stay_open_ = stay_open;
  }
  /// Memory that both sides may use according to the driver; the fake's processor may not.
  std::byte* allocate_managed(int device, std::size_t bytes);
  /// A living allocation where another was: what an allocator that gives addresses out again leaves behind.
  void exchange(std::byte* block);
  /// No card may reach what is allocated from now on.
  void out_of_reach_of_cards() { for_cards_ = false; }
  /// Likewise no other process.
  void out_of_reach_of_others() { for_others_ = false; }
  /// Others may reach everything again.
  void within_reach_of_others();
  void not_in_use() { in_use_ = false; }
  void begin_to_use() { in_use_ = true; }
  /// As a GPU before compute capability 9.0.
  void does_not_see_remote_writes() { sees_remote_writes_ = false; }

  /// Queues and streams that have something to do.
  std::size_t busy() const;
  std::uint64_t copies() const { return copies_; }
  /// Of these the ones with memory of the host on a side.
  std::uint64_t copies_with_host() const { return copies_with_host_; }
  std::uint64_t kernels() const { return kernels_; }
  /// Kernels that were several copies and a mark.
  std::uint64_t copying_kernels() const { return copying_kernels_; }
  /// Of pieces, for others to open.
  std::uint64_t exports() const { return exports_; }
  std::uint64_t bytes_copied() const { return bytes_copied_; }
  std::size_t pinned_bytes() const { return pinned_bytes_; }
  /// How often memory was asked for, of the host and of the device.
  std::uint64_t pinnings() const { return pinnings_; }
  std::uint64_t allocations_asked() const { return allocations_asked_; }
  /// Does all that is freed stay? Then what was opened is in the way of what is there since exchange().
  bool keeps_what_is_freed() const { return keeps_what_is_freed_; }
  /// How often it was told that a process has ended.
  std::uint64_t forgotten() const { return forgotten_; }
  /// How often a free came while a stream was held, for which the driver's would have waited.
  std::uint64_t frees_behind_held_streams() const { return frees_behind_held_streams_; }

  // DeviceRuntime
  bool in_use() override { return in_use_; }
  Result<MemoryFacts> look_up(const void* at) override;
  Result<std::unique_ptr<DeviceEvent>> record(int device, void* stream) override;
  Result<std::unique_ptr<DeviceQueue>> open_queue(int device) override;
  bool has_kernels() override { return has_kernels_; }
  Status load_kernels(int device) override;
  Result<CardFacts> look_up_for_cards(const std::byte* at) override;
  Result<Descriptor> export_pages(const std::byte* at, std::size_t bytes) override;
  bool sees_remote_writes(int) override { return sees_remote_writes_; }
  int device_in_use() override { return in_use_ ? 0 : -1; }
  Result<DeviceShare::Facts> share(const std::byte* at, std::size_t bytes) override;
  Result<std::vector<Descriptor>> export_pieces(const DeviceShare::Facts& facts) override;
  Result<std::shared_ptr<std::byte>> open_share(int device, const DeviceShare& share) override;
  void forget(const ProcessName&) override { ++forgotten_; }
  std::byte* allocate_pinned(std::size_t bytes) override;
  void free_pinned(std::byte* block) override;
  void keep_what_is_freed() override { keeps_what_is_freed_ = true; }
  void free_again() override { keeps_what_is_freed_ = false; }
  Status begin() override { return {}; }
  Result<std::vector<DeviceFacts>> devices() override;
  Result<std::byte*> allocate(int device, std::size_t bytes) override;
  void free(int device, std::byte* block) override;

 private:
  struct Work {
    // A copy, what is left of it; or a grid, likewise; or what a test gave; or, with none of them, a mark.
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    std::size_t bytes = 0;
    HostKernel grid = nullptr;
    cuda::kernels::FoldTask task = {};
    std::uint64_t threads = 0, threads_run = 0, first_thread = 0;
    std::optional<cuda::kernels::CopyTask> copies;
    std::function<void()> kernel;
    std::shared_ptr<bool> event;
    bool blocks = false;  // the stream is held here
  };
  struct Line {
    int device = 0;
    std::deque<Work> work;
    std::uint64_t marks = 0;
    bool captured = false;
    bool is_queue = false;
  };
  struct Allocation {
    std::size_t bytes;
    int device;
    MemoryKind kind;
    std::uint64_t number;
    bool for_cards = true;
    bool for_others = true;
    bool in_pieces = false;
  };
  struct Adopted {
    std::byte* front;  // without access
    std::byte* back;
    std::size_t bytes;
  };
  class Queue;
  class Event;
  using Lock = std::unique_lock<std::recursive_mutex>;

  std::byte* place(int device, std::size_t bytes, MemoryKind kind);
  const std::pair<const std::uintptr_t, Allocation>* allocation_of(std::uintptr_t at) const;
  bool ours(const void* at) const { return see(at) != at; }
  Line* line_of(void* stream);
  void step();
  bool step_one();
  void run(Line& line);
  bool run_some(Work& work);
  bool copy_some(Work& work);
  std::byte* resolve(const std::byte* at, std::size_t bytes);
  Status health() const;
  Status refuses();
  void note_free();

  mutable std::recursive_mutex mutex_;
  std::mt19937_64 chance_;
  const int device_count_;
  int memory_ = -1;
  std::byte* front_ = nullptr;  // without access
  std::byte* back_ = nullptr;
  std::size_t used_ = 0;
  std::map<std::uintptr_t, Allocation> alive_;
  std::vector<Adopted> adopted_;
  std::uint64_t allocations_ = 0;
  std::map<std::byte*, std::size_t> pinned_;
  std::size_t pinned_bytes_ = 0;
  bool refuses_to_pin_ = false;
  bool refuses_to_allocate_ = false;
  std::atomic<bool> keeps_what_is_freed_ = false;
  std::atomic<std::uint64_t> pinnings_ = 0, allocations_asked_ = 0, frees_behind_held_streams_ = 0, forgotten_ = 0;
  std::deque<std::unique_ptr<Line>> lines_;
  std::deque<Line> default_streams_;  // of each device
  std::size_t telling_ = 0;           // kernels that will tell
  std::condition_variable_any told_of_work_;
  std::condition_variable_any goes_on_;  // after it stood still
  std::string broken_;
  bool still_ = false;
  bool queues_held_ = false;
  std::atomic<int> waiting_ = 0;
  int refuse_ = -1;
  unsigned unopenable_ = 0;
  unsigned in_pieces_ = 0;
  bool stay_open_ = false;
  std::map<std::uint64_t, unsigned> stays_open_;   // by number: for so many times more
  std::map<std::uint64_t, std::uint64_t> opened_;  // by base: the number
  std::atomic<bool> in_use_ = true;
  bool has_kernels_ = true;
  bool for_cards_ = true;
  bool for_others_ = true;
  bool sees_remote_writes_ = true;
  std::uint64_t exports_ = 0;
  std::uint64_t copies_ = 0, copies_with_host_ = 0, bytes_copied_ = 0, kernels_ = 0, copying_kernels_ = 0;
};

}  // namespace fabring::fixture

#pragma once
// SharedMemory: a memfd, mapped. It has no name, so nothing is left behind however the processes end, and it does not
// count against the size of /dev/shm. It is sealed against shrinking: what a peer hands over cannot be cut off under
// us.

#include <fcntl.h>

#include <cstddef>
#include <cstdint>

#include "fabring/status.hpp"
#include "runtime/base/descriptor.hpp"

namespace fabring::shm {

/// Of this kernel: 4, 16 or 64 KiB. What is mapped, populated or taken from a peer is in whole ones.
std::size_t system_page();

/// How many addresses this process may still map (ulimit -v); the largest number: there is no limit.
std::uint64_t addresses_left();

class SharedMemory;

/// Makes the pages exist, for writing. False if this machine has no memory for them.
bool populate(const SharedMemory& memory, std::size_t offset, std::size_t bytes);

/// The same for kernels before 5.14, which do it for a memfd but not for what maps it. Where a kernel has not even that
/// for memfds, pages exist when they are touched, and it is true.
bool populate_memfd(int memfd, std::size_t offset, std::size_t bytes,
                    int (*allocate)(int memfd, int mode, off_t offset, off_t bytes) = ::fallocate);

/// Does the kernel refuse pages of such memory, when they are touched, as soon as all programs together were promised
/// too much (vm.overcommit_memory=2)? Whoever touches one then is ended by SIGBUS, however much memory is free.
bool pages_may_be_refused();

/// Memory in pages of this size exists sooner, and is read and written faster, than in many small ones. SharedMemory is
/// mapped so that it can have them.
inline constexpr std::size_t large_page = std::size_t{2} << 20;

/// Makes as many of those as fit, from `offset`, a multiple of their size, on. Where the kernel has none, or does not
/// give them, nothing is wrong: pages stay small, and populate() makes them.
void make_large_pages(const SharedMemory& memory, std::size_t offset, std::size_t bytes);

class SharedMemory {
 public:
  /// Of zeros; pages exist once they are touched. Errors: unavailable, out_of_memory.
  static Result<SharedMemory> create(std::size_t bytes);
  /// Another process's. Errors: transport_error unless it is a sealed memfd of just that size.
  static Result<SharedMemory> adopt(Descriptor memfd, std::size_t bytes);

  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept { *this = std::move(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  /// Takes the page faults now. False: see populate().
  [[nodiscard]] bool touch() const { return populate(*this, 0, size_); }

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  int memfd() const { return memfd_.fd(); }

 private:
  static Result<SharedMemory> map(Descriptor memfd, std::size_t bytes);

  Descriptor memfd_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace fabring::shm

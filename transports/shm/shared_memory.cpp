#include "transports/shm/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

#include "runtime/base/file_limit.hpp"
#include "runtime/base/parse_value.hpp"

namespace fabring::shm {
namespace {

Status failed(const char* what, int error) {
  const bool memory = error == ENOMEM || error == ENOSPC;
  const char* const limit = error == EMFILE ? " (see ulimit -n)" : "";
  return Status(memory ? ErrorCode::out_of_memory : ErrorCode::unavailable,
                std::string("shared memory: ") + what + ": " + std::strerror(error) + limit);
}

Status not_mapped(std::size_t bytes, int error) {
  if (error == EAGAIN)
    return {ErrorCode::out_of_memory,
            "shared memory: this process has asked the kernel to lock all memory that it maps (mlockall), and may not "
            "lock " +
                size_text(bytes) +
                " more: raise the limit (ulimit -l), or lower FABRING_SCRATCH_BYTES and FABRING_MAPPED_BYTES"};
  if (error != ENOMEM) return failed("mmap", error);
  constexpr std::size_t mib = std::size_t{1} << 20;
  return {
      ErrorCode::out_of_memory,
      "shared memory: no addresses for " + size_text((bytes + mib - 1) / mib * mib) +
          " more: see ulimit -v, and FABRING_SCRATCH_BYTES and FABRING_MAPPED_BYTES, of which each rank of the host "
          "takes that much for itself and for each of the others"};
}

// Beyond this limit ftruncate does not just fail: SIGXFSZ ends the program.
Status may_have(std::size_t bytes) {
  rlimit files{};
  if (::getrlimit(RLIMIT_FSIZE, &files) != 0 || files.rlim_cur == RLIM_INFINITY || bytes <= files.rlim_cur) return {};
  return {ErrorCode::unavailable, "shared memory: files may have " + size_text(files.rlim_cur) +
                                      " at most (ulimit -f), " + size_text(bytes) + " are needed"};
}

// After mlockall(MCL_FUTURE) the kernel locks what is mapped, and fills it with pages at once: of an arena all that it
// could ever hold, for each rank that maps it. So nothing of it can be touched until it is not locked any more. Pages
// that are used can then be swapped out, as with any other memory; what a program has locked itself stays so.
void* map_untouched(void* at, std::size_t bytes, int flags, int memfd) {
  void* const mapped = ::mmap(at, bytes, PROT_NONE, flags, memfd, 0);
  if (mapped != MAP_FAILED) (void)::munlock(mapped, bytes);
  return mapped;
}

// There can only be large pages where offsets and addresses differ by a multiple of one.
void* map_aligned(int memfd, std::size_t bytes) {
  if (bytes < large_page) return map_untouched(nullptr, bytes, MAP_SHARED, memfd);
  const std::size_t room = bytes + large_page;
  void* const found = map_untouched(nullptr, room, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
  if (found == MAP_FAILED) return found;
  auto* const first = static_cast<std::byte*>(found);
  const std::size_t before = (large_page - reinterpret_cast<std::uintptr_t>(first) % large_page) % large_page;
  void* const mapped = map_untouched(first + before, bytes, MAP_SHARED | MAP_FIXED, memfd);
  const int error = errno;
  if (mapped == MAP_FAILED) {
    ::munmap(first, room);
    errno = error;
    return mapped;
  }
  const std::size_t end = (before + bytes + system_page() - 1) / system_page() * system_page();
  if (before > 0) ::munmap(first, before);
  if (end < room) ::munmap(first + end, room - end);
  return mapped;
}

}  // namespace

std::size_t system_page() {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

std::uint64_t addresses_left() {
  rlimit limit{};
  std::uint64_t pages = 0;
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
      !(std::ifstream("/proc/self/statm") >> pages))
    return UINT64_MAX;
  const std::uint64_t taken = pages * system_page();
  return limit.rlim_cur > taken ? limit.rlim_cur - taken : 0;
}

bool pages_may_be_refused() {
  const Descriptor file(::open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC));
  char mode = '0';
  return file.fd() >= 0 && ::read(file.fd(), &mode, 1) == 1 && mode == '2';
}

Result<SharedMemory> SharedMemory::create(std::size_t bytes) {
  FABRING_TRY(may_have(bytes));
  Descriptor memfd(open_within_hard_limit([] { return ::memfd_create("fabring", MFD_CLOEXEC | MFD_ALLOW_SEALING); }));
  if (memfd.fd() < 0) return failed("memfd_create", errno);
  if (::ftruncate(memfd.fd(), static_cast<off_t>(bytes)) != 0) return failed("ftruncate", errno);
  if (::fcntl(memfd.fd(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) return failed("sealing", errno);
  return map(std::move(memfd), bytes);
}

Result<SharedMemory> SharedMemory::adopt(Descriptor memfd, std::size_t bytes) {
  struct stat about {};
  const int seals = ::fcntl(memfd.fd(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(memfd.fd(), &about) != 0 ||
      about.st_size != static_cast<off_t>(bytes))
    return Status(ErrorCode::transport_error, "a peer handed over something that is not the shared memory agreed on");
  auto memory = map(std::move(memfd), bytes);
  if (memory) (void)::madvise(memory->data_, bytes, MADV_DONTDUMP);  // the peer's core file has it
  return memory;
}

Result<SharedMemory> SharedMemory::map(Descriptor memfd, std::size_t bytes) {
  void* const data = map_aligned(memfd.fd(), bytes);
  if (data == MAP_FAILED) return not_mapped(bytes, errno);
  if (::mprotect(data, bytes, PROT_READ | PROT_WRITE) != 0) {
    const int error = errno;
    ::munmap(data, bytes);
    return not_mapped(bytes, error);
  }
  (void)::madvise(data, bytes, MADV_DONTFORK);  // a forked child is not a rank
  SharedMemory memory;
  memory.memfd_ = std::move(memfd);
  memory.data_ = static_cast<std::byte*>(data);
  memory.size_ = bytes;
  return memory;
}

// Of a stretch that has one small page the kernel makes a large one at once; of one that has all of them it copies
// each.
void make_large_pages(const SharedMemory& memory, std::size_t offset, std::size_t bytes) {
#ifndef MADV_COLLAPSE
  constexpr int MADV_COLLAPSE = 25;  // Linux 6.1; headers may be older
#endif
  const std::size_t whole = bytes / large_page * large_page;
  for (std::size_t at = 0; at < whole; at += large_page)
    if (!populate(memory, offset + at, 1)) return;
  if (whole > 0) (void)::madvise(memory.data() + offset, whole, MADV_COLLAPSE);
}

bool populate(const SharedMemory& memory, std::size_t offset, std::size_t bytes) {
#ifndef MADV_POPULATE_WRITE
  constexpr int MADV_POPULATE_WRITE = 23;  // Linux 5.14; headers may be older
#endif
  while (::madvise(memory.data() + offset, bytes, MADV_POPULATE_WRITE) != 0) {
    if (errno == EINVAL) return populate_memfd(memory.memfd(), offset, bytes);
    if (errno != EINTR && errno != EAGAIN) return false;
  }
  return true;
}

// In small parts: one that a signal interrupts is undone by the kernel, and has to be begun again.
bool populate_memfd(int memfd, std::size_t offset, std::size_t bytes, int (*allocate)(int, int, off_t, off_t)) {
  constexpr std::size_t part = large_page;
  for (std::size_t at = 0; at < bytes; at += part) {
    const auto length = static_cast<off_t>(std::min(part, bytes - at));
    while (allocate(memfd, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset + at), length) != 0)
      if (errno != EINTR) return errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL;
  }
  return true;
}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(memfd_, other.memfd_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace fabring::shm

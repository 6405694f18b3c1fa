// Allocations, and memory that is mapped piece by piece.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "tests/support/fake_cuda/fake_cuda.hpp"

namespace {

constexpr std::size_t granularity = std::size_t{2} << 20;

}  // namespace

// Physical memory is a file of its own; its descriptor is its handle. As strict about lengths as the driver.
FAKE Answer cuMemCreate(Physical* piece, std::size_t bytes, const void*, unsigned long long) {
  if (const Answer answer = check(); answer != success) return answer;
  if (bytes == 0 || bytes % granularity != 0) return invalid_value;
  const int fd = memfd_create("piece of a fake device", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) return out_of_memory;
  *piece = static_cast<Physical>(fd);
  return success;
}

FAKE Answer cuMemRelease(Physical piece) { return ::close(static_cast<int>(piece)) == 0 ? success : invalid_value; }

FAKE Answer cuMemAddressReserve(Address* at, std::size_t bytes, std::size_t, Address, unsigned long long) {
  if (bytes == 0 || bytes % granularity != 0) return invalid_value;
  std::byte* const block = device->reserve(bytes);
  if (block == nullptr) return out_of_memory;
  *at = reinterpret_cast<Address>(block);
  const std::lock_guard lock(mapped_mutex);
  reserved[*at] = bytes;
  return success;
}

FAKE Answer cuMemAddressFree(Address at, std::size_t) {
  {
    const std::lock_guard lock(mapped_mutex);
    reserved.erase(at);
  }
  device->free_reserved(reinterpret_cast<std::byte*>(at));
  return success;
}

FAKE Answer cuMemMap(Address at, std::size_t bytes, std::size_t offset, Physical piece, unsigned long long) {
  if (const Answer answer = check(); answer != success) return answer;
  struct stat facts {};
  const int fd = static_cast<int>(piece);
  if (offset != 0 || ::fstat(fd, &facts) != 0 || static_cast<std::size_t>(facts.st_size) != bytes) return invalid_value;
  if (!device->adopt_at(reinterpret_cast<std::byte*>(at), fd, bytes, current.back()->device)) return invalid_value;
  const std::lock_guard lock(mapped_mutex);
  pieces[at] = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
  return success;
}

FAKE Answer cuMemUnmap(Address at, std::size_t) {
  const std::lock_guard lock(mapped_mutex);
  const auto found = pieces.find(at);
  if (found == pieces.end()) return invalid_value;
  let_in.erase(at);
  ::close(found->second);
  pieces.erase(found);
  device->synchronize();
  device->disown(reinterpret_cast<std::byte*>(at));
  return success;
}

// Of whole pieces, without a gap.
FAKE Answer cuMemSetAccess(Address at, std::size_t bytes, const Access* access, std::size_t count) {
  if (count != 1 || access->location.type != location_device || access->flags != access_read_write)
    return invalid_value;
  const std::lock_guard lock(mapped_mutex);
  const Address end = at + bytes;
  while (at < end) {
    const auto facts = pieces.contains(at) ? device->look_up(reinterpret_cast<void*>(at))
                                           : fabring::Result<fabring::MemoryFacts>(fabring::MemoryFacts());
    if (!facts || facts->bytes == 0) return invalid_value;
    let_in[at].insert(access->location.id);
    at += facts->bytes;
  }
  return at == end ? success : invalid_value;
}

FAKE Answer cuMemRetainAllocationHandle(Physical* piece, void* at) {
  const std::lock_guard lock(mapped_mutex);
  const auto found = pieces.find(reinterpret_cast<Address>(at));
  if (found == pieces.end()) return invalid_value;
  *piece = static_cast<Physical>(::fcntl(found->second, F_DUPFD_CLOEXEC, 3));
  return success;
}

FAKE Answer cuMemExportToShareableHandle(void* handle, Physical piece, int type, unsigned long long) {
  if (type != handle_is_descriptor) return not_supported;
  *static_cast<int*>(handle) = ::fcntl(static_cast<int>(piece), F_DUPFD_CLOEXEC, 3);
  return success;
}

FAKE Answer cuMemImportFromShareableHandle(Physical* piece, void* handle, int type) {
  if (type != handle_is_descriptor) return not_supported;
  const int fd = ::fcntl(static_cast<int>(reinterpret_cast<std::intptr_t>(handle)), F_DUPFD_CLOEXEC, 3);
  if (fd < 0) return invalid_value;
  *piece = static_cast<Physical>(fd);
  return success;
}

namespace {

Answer allocate_pieces(Address* at, std::size_t bytes) {
  const std::size_t count = (bytes + granularity - 1) / granularity;
  Answer answer = cuMemAddressReserve(at, count * granularity, 0, 0, 0);
  for (std::size_t i = 0; i < count && answer == success; ++i) {
    Physical piece = 0;
    answer = cuMemCreate(&piece, granularity, nullptr, 0);
    if (answer == success) answer = cuMemMap(*at + i * granularity, granularity, 0, piece, 0);
    cuMemRelease(piece);
  }
  const Access access{{location_device, current.back()->device}, access_read_write};
  return answer == success ? cuMemSetAccess(*at, count * granularity, &access, 1) : answer;
}

bool free_pieces(Address at) {
  std::size_t bytes = 0;
  {
    const std::lock_guard lock(mapped_mutex);
    const auto found = reserved.find(at);
    if (found == reserved.end()) return false;
    bytes = found->second;
  }
  for (std::size_t done = 0; done < bytes; done += granularity) cuMemUnmap(at + done, granularity);
  return cuMemAddressFree(at, bytes) == success;
}

}  // namespace

FAKE Answer cuMemAlloc_v2(Address* at, std::size_t bytes) {
  if (const Answer answer = check(); answer != success) return answer;
  if (number("FAKE_CUDA_PIECES", 0) != 0) return allocate_pieces(at, bytes);
  const auto block = device->allocate(current.back()->device, bytes);
  if (!block) return out_of_memory;
  *at = reinterpret_cast<Address>(*block);
  return success;
}

FAKE Answer cuMemFree_v2(Address at) {
  if (const Answer answer = check(); answer != success) return answer;
  device->synchronize();
  if (!free_pieces(at)) device->free(0, reinterpret_cast<std::byte*>(at));
  return success;
}

FAKE Answer cuMemHostAlloc(void** block, std::size_t bytes, unsigned) {
  if (const Answer answer = check(); answer != success) return answer;
  *block = device->allocate_pinned(bytes);
  return success;
}

FAKE std::size_t fake_cuda_pinned_bytes() { return device->pinned_bytes(); }

FAKE Answer cuMemFreeHost(void* block) {
  if (const Answer answer = check(); answer != success) return answer;
  device->wait_while_still();
  device->free_pinned(static_cast<std::byte*>(block));
  return success;
}

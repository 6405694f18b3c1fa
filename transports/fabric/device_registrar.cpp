#include "transports/fabric/device_registrar.hpp"

#include <rdma/fi_errno.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "transports/fabric/error_text.hpp"
#include "transports/fabric/libfabric.hpp"

namespace fabring::fabric {
namespace {

fi_mr_attr attributes_of(const DeviceRange& range, bool readable, std::uint64_t key) {
  fi_mr_attr attributes{};
  attributes.iov_count = 1;
  attributes.access = FI_SEND | FI_RECV;
  if (readable) attributes.access |= FI_READ | FI_REMOTE_READ;
  attributes.requested_key = key;
  attributes.iface = FI_HMEM_CUDA;
  attributes.device.cuda = range.device;
  return attributes;
}

// What this host is short of for the moment: nothing is said of the GPU and the card by that.
bool passes(int rc) {
  const int number = rc < 0 ? -rc : rc;
  return number == FI_ENOMEM || number == FI_ENOSPC || number == FI_EAGAIN || number == FI_EBUSY ||
         number == FI_EMFILE || number == ENFILE || number == FI_EINTR;
}

Status refused(const char* call, int rc) {
  return {passes(rc) ? ErrorCode::out_of_memory : ErrorCode::unavailable, call_failed(call, rc).message()};
}

#ifdef FI_MR_DMABUF
// A dmabuf has whole pages of the host.
Result<RegistrationHandle> as_dmabuf(fid_domain* domain, DeviceMemory& memory, const DeviceRange& range,
                                     fi_mr_attr attributes) {
  if (libfabric().version() < FI_VERSION(1, 20)) return Status(ErrorCode::unsupported, "libfabric is older than 1.20");
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(range.base);
  const std::size_t before = begin % page;
  const std::size_t bytes = (before + range.bytes + page - 1) / page * page;
  const std::byte* const first = range.base - before;
  const auto exported = memory.export_pages(first, bytes);
  if (!exported) return exported.error();
  fi_mr_dmabuf buffer{};
  buffer.fd = exported->fd();
  buffer.offset = before;
  buffer.len = range.bytes;
  buffer.base_addr = const_cast<std::byte*>(first);
  attributes.dmabuf = &buffer;
  RegistrationHandle handle;
  if (const int rc = fi_mr_regattr(domain, &attributes, FI_MR_DMABUF, handle.out())) return refused("dmabuf", rc);
  return handle;
}
#else
Result<RegistrationHandle> as_dmabuf(fid_domain*, DeviceMemory&, const DeviceRange&, const fi_mr_attr&) {
  return Status(ErrorCode::unsupported, "Fabring was built with a libfabric older than 1.20");
}
#endif

Result<RegistrationHandle> by_address(fid_domain* domain, const DeviceRange& range, fi_mr_attr attributes) {
  const iovec bytes{const_cast<std::byte*>(range.base), range.bytes};
  attributes.mr_iov = &bytes;
  RegistrationHandle handle;
  if (const int rc = fi_mr_regattr(domain, &attributes, 0, handle.out())) return refused("fi_mr_regattr", rc);
  return handle;
}

}  // namespace

Result<RegistrationHandle> register_device_range(fid_domain* domain, DeviceMemory& memory, const DeviceRange& range,
                                                 bool readable, std::uint64_t key) {
  const fi_mr_attr attributes = attributes_of(range, readable, key);
  auto handle = as_dmabuf(domain, memory, range, attributes);
  if (handle) return handle;
  const Status first = handle.error();
  handle = by_address(domain, range, attributes);
  if (handle) return handle;
  const std::string of_gpu = "memory of GPU " + std::to_string(range.device);
  const std::string why = ": as a dmabuf: " + first.message() + "; by address: " + handle.error().message();
  if (first.code() == ErrorCode::out_of_memory || handle.error().code() == ErrorCode::out_of_memory)
    return Status(ErrorCode::out_of_memory, "the card cannot take " + of_gpu + " now" + why);
  return Status(ErrorCode::unavailable, "the card cannot reach " + of_gpu + why +
                                            "; load nvidia_peermem or use the open kernel modules (fabring doctor "
                                            "host)");
}

}  // namespace fabring::fabric

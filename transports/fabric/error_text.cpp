#include "transports/fabric/error_text.hpp"

#include <sys/eventfd.h>

#include <cerrno>
#include <cstdlib>

#include "runtime/base/descriptor.hpp"
#include "transports/fabric/handles.hpp"
#include "transports/fabric/libfabric.hpp"

namespace fabring::fabric {
namespace {

bool no_descriptor_is_left() {
  const Descriptor one(::eventfd(0, EFD_CLOEXEC));
  return one.fd() < 0 && errno == EMFILE;
}

}  // namespace

std::string error_text(std::int64_t error) {
  const int number = static_cast<int>(std::abs(error));
  return std::string(libfabric().strerror(number)) + " (" + std::to_string(number) + ")";
}

Status call_failed(const char* call, std::int64_t error) {
  auto number = std::abs(error);
  if (number == FI_EIO && no_descriptor_is_left()) number = FI_EMFILE;  // native TCP (1.17) does not say which it was
  std::string text = std::string(call) + " failed: " + error_text(number);
  if (number == FI_EMFILE) text += "; raise the limit of open files (ulimit -n): each peer needs three";
  if (number == FI_EADDRNOTAVAIL) text += "; the address is not one of this host's";
  ErrorCode code = ErrorCode::transport_error;
  if (number == FI_ENOMEM || number == FI_ENOSPC) code = ErrorCode::out_of_memory;
  if (number == FI_EADDRNOTAVAIL || number == FI_EADDRINUSE || number == FI_ENODEV || number == FI_EMFILE)
    code = ErrorCode::unavailable;
  return {code, text};
}

Status operation_failed(const fi_cq_err_entry& entry) {
  switch (entry.err) {
    case FI_ECANCELED: {
      // Native TCP ends what stood behind the failed operation, or a half-received message, with ECANCELED. The errno
      // that comes along is whatever the last system call left (1.17), so only the two that make sense are repeated.
      const bool told = entry.prov_errno == ENOTCONN || entry.prov_errno == ECONNRESET;
      return {ErrorCode::peer_lost,
              "connection lost: " + (told ? error_text(entry.prov_errno) : std::string("closed by the other side"))};
    }
    case FI_ETRUNC:
      return {ErrorCode::transport_error, "the peer sent more bytes than the receive holds: " + error_text(entry.err) +
                                              "; this is a protocol error"};
    case FI_ENOMEM:
    case FI_ENOSPC:
    case FI_EOVERRUN:
      return {ErrorCode::out_of_memory, "libfabric ran out of resources: " + error_text(entry.err)};
    default:
      return {ErrorCode::peer_lost, "connection lost: " + error_text(entry.err)};
  }
}

}  // namespace fabring::fabric

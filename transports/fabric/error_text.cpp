#include "transports/fabric/error_text.hpp"

#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "runtime/base/descriptor.hpp"
#include "transports/fabric/handles.hpp"
#include "transports/fabric/libfabric.hpp"

namespace fabring::fabric {
namespace {

// EFA's (prov/efa/src/efa_errno.h). From the first to the last of this rank's own: the queue pair (flushed, as it was
// given up before: none of ours is while its queue is read; then broken), the kind of the operation, the address
// handle, the memory, the length.
constexpr int efa_first_own = 1, efa_last_own = 6, efa_remote_bad_address = 7, efa_remote_abort = 8,
              efa_remote_bad_length = 11, efa_unresponsive = 13, efa_unknown_peer = 14, efa_unreachable = 15,
              efa_feature_mismatch = 18, efa_receive_buffers = 4112, efa_established_unresponsive = 4124,
              efa_unestablished_unresponsive = 4126;

constexpr int no_registration_left = 270;  // FI_ENOMR, which headers of libfabric 1.17 have no name for

constexpr std::size_t longest_words = 400;  // EFA's sentences name both addresses

// Of these peers none has ever been heard: a security group stops that. The others answered before, and are gone.
bool was_never_reached(int efa_number) {
  return efa_number == efa_unreachable || efa_number == efa_unestablished_unresponsive;
}

bool is_own(int efa_number) { return efa_number >= efa_first_own && efa_number <= efa_last_own; }

constexpr const char* raise_own_limit = "; raise the limit of open files (ulimit -n): each peer needs three";
constexpr const char* raise_limit_of_host = "; raise the host's limit on open files (sysctl fs.file-max)";
constexpr const char* more_ports = "; this host has no port left for it (net.ipv4.ip_local_port_range)";

// 0: one is.
int why_no_descriptor_is_left() {
  const Descriptor one(::eventfd(0, EFD_CLOEXEC));
  return one.fd() < 0 && (errno == EMFILE || errno == ENFILE) ? errno : 0;
}

}  // namespace

std::string error_text(std::int64_t error) {
  const int number = static_cast<int>(std::abs(error));
  return std::string(libfabric().strerror(number)) + " (" + std::to_string(number) + ")";
}

Status call_failed(const char* call, std::int64_t error) {
  auto number = std::abs(error);
  // Native TCP (1.17) does not say which it was.
  if (const int why = number == FI_EIO ? why_no_descriptor_is_left() : 0; why != 0) number = why;
  std::string text = std::string(call) + " failed: " + error_text(number);
  if (number == FI_EMFILE) text += raise_own_limit;
  if (number == ENFILE) text += raise_limit_of_host;
  if (number == FI_EADDRINUSE) text += more_ports;  // none is asked for by its number
  if (number == FI_EADDRNOTAVAIL) text += "; the address is not one of this host's";
  ErrorCode code = ErrorCode::transport_error;
  if (number == FI_ENOMEM || number == FI_ENOSPC || number == no_registration_left) code = ErrorCode::out_of_memory;
  if (number == FI_EADDRNOTAVAIL || number == FI_EADDRINUSE || number == FI_ENODEV || number == FI_EMFILE ||
      number == ENFILE)
    code = ErrorCode::unavailable;
  return {code, text};
}

bool is_lacking_here(const Status& why) {
  if (why.code() == ErrorCode::out_of_memory) return true;
  return why.code() == ErrorCode::unavailable &&
         std::ranges::any_of(std::array{raise_own_limit, raise_limit_of_host, more_ports},
                             [&](const char* words) { return why.message().ends_with(words); });
}

bool is_post_wrong(std::int64_t error) {
  const auto number = std::abs(error);
  return number == FI_EINVAL || number == FI_EMSGSIZE;
}

Status operation_failed(const fi_cq_err_entry& entry, bool efa) {
  if (is_own_fault(entry, efa))
    return {ErrorCode::transport_error, "an operation was refused: " + error_text(entry.err)};
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
    case FI_EINVAL:
    case FI_EMSGSIZE:
      return {ErrorCode::transport_error, "an operation was refused: " + error_text(entry.err)};
    default:
      return {ErrorCode::peer_lost, "connection lost: " + error_text(entry.err)};
  }
}

// EFA's 1.17 has FI_EIO for all that a card says, so the number decides.
bool is_own_fault(const fi_cq_err_entry& entry, bool efa) {
  if (efa && is_own(entry.prov_errno)) return true;
  if (entry.err != FI_EINVAL && entry.err != FI_EMSGSIZE) return false;
  return entry.prov_errno != efa_remote_bad_address && entry.prov_errno != efa_remote_bad_length &&
         entry.prov_errno != efa_feature_mismatch;
}

std::string shown(const char* text) {
  if (!text) return {};
  std::string safe(text, ::strnlen(text, longest_words));
  for (char& c : safe)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return safe;
}

std::string provider_words(const ProviderError& told, bool efa) {
  const bool is_efas = efa && told.number > 0;  // its 5 is not errno's
  if (told.number == 0 || (!is_efas && std::abs(told.number) == std::abs(told.error))) return {};
  std::string words = ", provider's number " + std::to_string(told.number);
  if (!told.text.empty()) words += ": " + told.text;
  if (efa && was_never_reached(told.number)) words += "; allow all traffic of the security group to and from itself";
  if (efa && (is_own(told.number) || is_unanswered(told.number)))
    words += "; fabring doctor explain " + std::to_string(told.number);
  return words;
}

bool is_unanswered(int efa_number) {
  return efa_number == efa_remote_abort || efa_number == efa_unresponsive || efa_number == efa_unknown_peer ||
         efa_number == efa_established_unresponsive || was_never_reached(efa_number);
}

Status device_failed(const ProviderError& told, bool efa) {
  const bool is_short = told.error == FI_ENOMEM || (efa && told.number == efa_receive_buffers);
  return {is_short ? ErrorCode::out_of_memory : ErrorCode::transport_error,
          "the network card failed: " + error_text(told.error) + provider_words(told, efa) +
              (is_short ? more_locked_memory : "")};
}

}  // namespace fabring::fabric

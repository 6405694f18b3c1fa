#pragma once
// libfabric's error numbers as sentences and as our few codes. Completion queues report positive numbers, calls
// negative ones; both are accepted here.

#include <cstdint>
#include <string>

#include "fabring/status.hpp"

struct fi_cq_err_entry;

namespace fabring::fabric {

/// "Connection reset by peer (104)"
std::string error_text(std::int64_t error);

/// A failed call that is no peer's fault: "fi_cq_open failed: ...".
Status call_failed(const char* call, std::int64_t error);

/// Is it an error that this process or its host is short of: files or ports (call_failed()), memory or registrations?
/// Nothing is known of a peer then.
bool is_lacking_here(const Status& why);

/// Does a post that was refused so ask for what the provider never does, whoever the peer is?
bool is_post_wrong(std::int64_t error);

/// Why an operation that we did not end ourselves failed, from its completion entry. Memory or an address of this
/// rank's that the card refuses, or a length, is a transport_error: no peer is lost by it.
Status operation_failed(const fi_cq_err_entry& entry, bool efa);

/// Is what the entry tells this rank's own fault? By its number EFA tells a few of the peer's from it.
bool is_own_fault(const fi_cq_err_entry& entry, bool efa);

/// An error as a provider tells it.
struct ProviderError {
  int error = 0;     ///< libfabric's number, positive
  int number = 0;    ///< the provider's own
  std::string text;  ///< what the provider says, safe to show
};

/// Text of a provider as it may be shown: control characters become '?', too long is cut. Null: nothing.
std::string shown(const char* text);

/// ", provider's number 4126: Unresponsive receiver ...", and what to do about EFA's. Empty: it says no more than the
/// error itself.
std::string provider_words(const ProviderError& told, bool efa);

/// EFA: does the number mean that a peer is gone or does not answer?
bool is_unanswered(int efa_number);

/// An error of the card that belongs to no operation.
Status device_failed(const ProviderError& told, bool efa);

/// What to do when memory for the card could not be locked.
inline constexpr const char* more_locked_memory =
    "; raise the limit on locked memory (ulimit -l, docker run --ulimit memlock=-1; fabring doctor host says who sets "
    "it)";

}  // namespace fabring::fabric

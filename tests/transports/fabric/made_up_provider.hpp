#pragma once
// A libfabric provider for tests, loaded by libfabric itself (FI_PROVIDER_PATH): reliable datagrams between endpoints
// of one process, with a card that reaches memory of a fake GPU if it was registered and named with every post, and
// that no processor touches. It is strict: memory that is not registered, or a descriptor that was closed, ends the
// process.
//
// With `native` it passes for libfabric's own TCP: nothing is registered, and messages can be injected.
//
// With `efa` it passes for EFA, but for its addresses.
//
// With late_writes it is a card before a GPU that does not see what cards write: what was received lies in the card
// until something is read from that memory through it.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fabring::made_up {

/// An error, the provider's number of it, and its sentence (of a queue's entry; empty: none).
struct Error {
  int error = 0;
  int number = 0;
  std::string sentence = {};
};

/// A message or a receive that was taken.
struct Posted {
  void* context = nullptr;
  std::uint64_t flags = 0;
  std::uint64_t tag = 0;
  void* queue = nullptr;
};

struct Control {
  std::byte* (*see)(const void* at) = nullptr;  ///< memory of the GPU, where a processor may touch it; else `at`
  bool offers_devices = true;                   ///< FI_HMEM
  bool opens_for_devices = true;                ///< a domain with FI_HMEM
  int answer_to_promise = 0;                    ///< of fi_setopt FI_OPT_FI_HMEM_P2P: 0 or a negative error
  int answer_to_opening = 0;                    ///< of an endpoint: 0 or a negative error
  int answer_to_registering = 0;                ///< of memory of the GPU
  int answer_to_locking = 0;                    ///< likewise of the host's
  bool native = false;
  bool efa = false;             ///< passes for EFA, whose card tells of errors that belong to no operation
  bool manual = false;          ///< FI_THREAD_DOMAIN, as EFA promises
  int answer_to_injection = 0;  ///< a negative error instead of taking it
  int lost_injection = 0;       ///< the injection of this number, from 1, is taken and never arrives
  bool late_writes = false;
  int busy_reads = 0;  ///< so many reads are answered -FI_EAGAIN
  bool failing_reads = false;
  int answer_to_posting = 0;        ///< messages and receives: a negative error instead of taking them
  std::uint16_t full_to = 0;        ///< messages to this port are answered -FI_EAGAIN
  bool stuck_sends = false;         ///< of messages: taken, and never ended
  Error answer_to_send;             ///< the next message ends so, once; error 0: as it should
  std::vector<Posted> late_errors;  ///< of these the queue tells an error when it is read next, whatever became of them
  Error late_error;                 ///< and this one
  std::vector<Error> card_errors;   ///< of no operation, the first first
  int answer_of_queue = 0;          ///< of fi_cq_read, instead of entries: a negative error
  int answer_of_queue_errors = 0;   ///< of fi_cq_readerr likewise, once there is one

  std::string fork_safe, huge_pages;  ///< FI_EFA_FORK_SAFE, FI_EFA_USE_HUGE_PAGE when it was first asked
  bool asked = false;
  int waiting_queues = 0;      ///< opened with a wait object
  std::vector<Posted> posted;  ///< in turn
  int injections = 0;
  int registered = 0;     ///< ranges of the GPU, now
  int registrations = 0;  ///< ever
  int reads = 0;
  int from_device = 0;  ///< messages sent from memory of the GPU
};

}  // namespace fabring::made_up

/// Of the provider that is loaded in this process.
extern "C" fabring::made_up::Control* made_up_control();

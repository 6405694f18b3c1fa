#pragma once
// What the parts of the made-up provider share: its objects, one lock for all of them, and how they are opened.

#include <netinet/in.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "tests/transports/fabric/made_up_provider.hpp"

namespace fabring::made_up {

inline std::recursive_mutex mutex;
using Lock = std::unique_lock<std::recursive_mutex>;
inline Control control;

/// Ends the process: a rule of libfabric's was broken.
[[noreturn]] void broken(const char* rule);

inline std::byte* see(const void* at) {
  return control.see ? control.see(at) : static_cast<std::byte*>(const_cast<void*>(at));
}

// The libfabric object comes first in each of ours.
template <class Ours, class Fid>
Ours* of(Fid* fid) {
  return reinterpret_cast<Ours*>(fid);
}

struct Queue {
  fid_cq base{};
  std::deque<fi_cq_msg_entry> entries;
  std::deque<fi_cq_err_entry> errors;
  std::deque<std::string> sentences;  ///< of the errors
  std::string last_sentence;          ///< of the error that was read last, until something else is read
  bool signalled = false;
  std::condition_variable_any news;

  void done(void* context, std::uint64_t flags, std::size_t bytes) {
    entries.push_back({context, flags, bytes});
    news.notify_all();
  }
  void failed(const Posted& post, const Error& how) {
    fi_cq_err_entry entry{};
    entry.op_context = post.context;
    if (control.efa) {
      entry.flags = post.flags;
      entry.tag = post.tag;
    }
    entry.err = how.error;
    entry.prov_errno = how.number;
    errors.push_back(entry);
    sentences.push_back(how.sentence);
    news.notify_all();
  }
};

struct Addresses {
  fid_av base{};
  std::vector<std::uint16_t> ports;
};

struct Parked {
  std::byte* to;
  std::vector<std::byte> bytes;
};

struct Registration {
  fid_mr base{};
  const std::byte* first = nullptr;
  std::size_t bytes = 0;
  std::uint64_t access = 0;
  bool device = false;
  std::vector<Parked> parked;
};

struct Receive {
  std::byte* into;
  std::size_t bytes;
  Registration* registration;
  std::uint64_t tag;
  void* context;
};
struct Message {
  std::uint64_t tag;
  std::vector<std::byte> bytes;
};

struct Door {
  fid_ep base{};
  std::uint16_t port = 0;
  in_addr host{};
  Queue* queue = nullptr;
  Addresses* addresses = nullptr;
  std::deque<Receive> receives;
  std::deque<Message> early;
};

/// The registration that a post of this memory names; null for no bytes. It must live, hold all of the memory and allow
/// `access`, or the process ends.
Registration* check(const void* at, std::size_t bytes, void* descriptor, std::uint64_t access);
Registration* registration_of(std::uint64_t key);

fi_ops_mr* memory_calls();
int open_addresses(fid_domain*, fi_av_attr*, fid_av** into, void*);
int open_queue(fid_domain*, fi_cq_attr*, fid_cq** into, void*);
int open_events(fid_fabric*, fi_eq_attr*, fid_eq** into, void*);
int open_door(fid_domain*, fi_info* info, fid_ep** into, void*);

/// A table of calls, filled by `fill`: where it is static it is written once, though other threads make calls already.
template <class Calls, class Fill>
Calls table(Fill fill) {
  Calls calls{};
  calls.size = sizeof calls;
  fill(calls);
  return calls;
}

template <class Ours>
int close_ours(fid_t fid) {
  const Lock lock(mutex);
  delete of<Ours>(fid);
  return 0;
}

/// What libfabric looks at first in an object.
inline void introduce(fid& fid, std::size_t fclass, fi_ops& ops) {
  fid.fclass = fclass;
  fid.ops = &ops;
}

/// Of an object that is only closed, and bound to nothing.
inline fi_ops plain(int (*close)(fid_t)) {
  return table<fi_ops>([close](fi_ops& ops) { ops.close = close; });
}

}  // namespace fabring::made_up

#pragma once
// One owner per libfabric object. Members are declared in the order fabric, domain, av, cq, endpoints, so that C++'s
// reverse destruction is the order libfabric demands (endpoints first), without which fi_close answers -FI_EBUSY.

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <memory>
#include <utility>

#include "transports/fabric/libfabric.hpp"

namespace fabring::fabric {

template <class Fid>
class Handle {
 public:
  Handle() = default;
  Handle(Handle&& other) noexcept : fid_(std::exchange(other.fid_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) {
      reset();
      fid_ = std::exchange(other.fid_, nullptr);
    }
    return *this;
  }
  ~Handle() { reset(); }

  Fid* get() const { return fid_; }
  Fid* operator->() const { return fid_; }
  explicit operator bool() const { return fid_ != nullptr; }
  /// Where an fi_*open call writes its result.
  Fid** out() {
    reset();
    return &fid_;
  }
  void reset() {
    if (fid_) fi_close(&fid_->fid);
    fid_ = nullptr;
  }

 private:
  Fid* fid_ = nullptr;
};

using FabricHandle = Handle<fid_fabric>;
using DomainHandle = Handle<fid_domain>;
using AddressVectorHandle = Handle<fid_av>;
using CompletionQueueHandle = Handle<fid_cq>;
using EventQueueHandle = Handle<fid_eq>;
using EndpointHandle = Handle<fid_ep>;
using RegistrationHandle = Handle<fid_mr>;

struct FreeInfo {
  void operator()(fi_info* info) const { libfabric().freeinfo(info); }
};
using InfoHandle = std::unique_ptr<fi_info, FreeInfo>;  // owns the whole list it points to

}  // namespace fabring::fabric

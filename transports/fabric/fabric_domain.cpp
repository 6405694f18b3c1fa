#include "transports/fabric/fabric_domain.hpp"

#include <netinet/in.h>

#include <cstdlib>
#include <cstring>

#include "transports/fabric/device_registrar.hpp"
#include "transports/fabric/error_text.hpp"
#include "transports/fabric/libfabric.hpp"
#include "transports/fabric/wire.hpp"

namespace fabring::fabric {

Result<std::unique_ptr<FabricDomain>> FabricDomain::open(ProviderChoice choice, std::size_t completions) {
  std::unique_ptr<FabricDomain> self(new FabricDomain(std::move(choice)));
  fi_info* info = self->choice_.info.get();
  if (int rc = libfabric().fabric(info->fabric_attr, self->fabric_.out(), nullptr)) return call_failed("fi_fabric", rc);
  if (int rc = fi_domain(self->fabric_.get(), info, self->domain_.out(), nullptr)) return call_failed("fi_domain", rc);
  fi_av_attr addresses{};
  addresses.type = FI_AV_TABLE;
  if (int rc = fi_av_open(self->domain_.get(), &addresses, self->addresses_.out(), nullptr))
    return call_failed("fi_av_open", rc);
  FABRING_TRY(self->open_queue(completions));
  if (self->choice_.kind == Kind::efa) {
    fi_eq_attr events{};
    events.wait_obj = FI_WAIT_NONE;
    (void)fi_eq_open(self->fabric_.get(), &events, self->events_.out(), nullptr);
  }
  return self;
}

Status FabricDomain::open_queue(std::size_t completions) {
  fi_cq_attr attr{};
  attr.format = FI_CQ_FORMAT_MSG;
  int rc = 0;
  // The wait object must be chosen now. fi_cq_sread needs one; a provider may refuse it, or the size. Waking a waiter
  // from another thread is a call into the domain, which only FI_THREAD_SAFE permits: else none is asked for.
  for (const bool wait : {true, false}) {
    if (wait && !may_be_woken()) continue;
    for (const std::size_t size : {completions, std::size_t{0}}) {
      attr.size = size;
      attr.wait_obj = wait ? FI_WAIT_UNSPEC : FI_WAIT_NONE;
      rc = fi_cq_open(domain_.get(), &attr, queue_.out(), nullptr);
      if (rc == 0) {
        can_block_ = wait;
        return {};
      }
    }
  }
  return call_failed("fi_cq_open", rc);
}

namespace {

// libfabric's own CUDA calls would wait for whatever the program has the GPU do: a provider that cannot do without
// them, or that does not know what it is asked, gets no memory of GPUs.
void leave_devices_to_the_card(fid_ep* endpoint, DeviceVerdict& verdict) {
  int peer_to_peer = FI_HMEM_P2P_REQUIRED;
  int rc = fi_setopt(&endpoint->fid, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &peer_to_peer, sizeof peer_to_peer);
  const char* option = "FI_OPT_FI_HMEM_P2P";
#ifdef FABRING_LIBFABRIC_CAN_FORBID_CUDA
  bool permitted = false;
  const int forbidden =
      fi_setopt(&endpoint->fid, FI_OPT_ENDPOINT, FI_OPT_CUDA_API_PERMITTED, &permitted, sizeof permitted);
  // One that does not know this option (libfabric before 1.18) has promised enough by the other.
  if (forbidden != -FI_ENOPROTOOPT && forbidden != -FI_ENOSYS) {
    rc = forbidden;
    option = "FI_OPT_CUDA_API_PERMITTED";
  }
#endif
  if (rc == 0) return;
  verdict = {false, verdict.reason + ", but it would call CUDA itself: " + option + " answers " + error_text(rc)};
}

}  // namespace

Result<EndpointHandle> FabricDomain::open_endpoint(DeviceVerdict* device) const {
  EndpointHandle endpoint;
  if (int rc = fi_endpoint(domain_.get(), choice_.info.get(), endpoint.out(), nullptr))
    return call_failed("fi_endpoint", rc);
  if (device && device->direct) leave_devices_to_the_card(endpoint.get(), *device);
  if (int rc = fi_ep_bind(endpoint.get(), &addresses_->fid, 0)) return call_failed("fi_ep_bind (av)", rc);
  if (int rc = fi_ep_bind(endpoint.get(), &queue_->fid, FI_TRANSMIT | FI_RECV))
    return call_failed("fi_ep_bind (cq)", rc);
  if (events_) (void)fi_ep_bind(endpoint.get(), &events_->fid, 0);
  if (int rc = fi_enable(endpoint.get())) return call_failed("fi_enable", rc);
  return endpoint;
}

Result<std::string> FabricDomain::name_of(fid_ep* endpoint) const {
  std::string name(max_name_bytes, '\0');
  std::size_t size = name.size();
  if (int rc = fi_getname(&endpoint->fid, name.data(), &size)) return call_failed("fi_getname", rc);
  name.resize(size);
  return name;
}

// libfabric believes the bytes it is given to insert: their length and family are for us to check.
bool FabricDomain::plausible(std::string_view name) const {
  const std::uint32_t format = choice_.info->addr_format;
  if (format != FI_SOCKADDR && format != FI_SOCKADDR_IN && format != FI_SOCKADDR_IN6)
    return choice_.info->src_addrlen == 0 || name.size() == choice_.info->src_addrlen;
  const auto* own = static_cast<const sockaddr*>(choice_.info->src_addr);
  sockaddr_in6 address{};
  if (name.size() > sizeof address || name.size() < sizeof(sockaddr_in)) return false;
  std::memcpy(&address, name.data(), name.size());
  const bool v6 = address.sin6_family == AF_INET6;
  if (own && own->sa_family != address.sin6_family) return false;
  // The port stands at the same place in both families.
  return name.size() == (v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in)) && address.sin6_port != 0;
}

Result<fi_addr_t> FabricDomain::insert(std::string_view name) const {
  if (!plausible(name))
    return Status(ErrorCode::invalid_argument, "an endpoint name of " + std::to_string(name.size()) +
                                                   " bytes that is not one of this provider or address family");
  fi_addr_t address = FI_ADDR_UNSPEC;
  const int inserted = fi_av_insert(addresses_.get(), name.data(), 1, &address, 0, nullptr);
  if (inserted != 1) return call_failed("fi_av_insert", inserted < 0 ? inserted : FI_EADDRNOTAVAIL);
  return address;
}

std::string FabricDomain::readable(std::string_view name) const {
  if (!plausible(name)) return "?";
  char text[256] = {};
  std::size_t size = sizeof text;
  fi_av_straddr(addresses_.get(), name.data(), text, &size);
  text[sizeof text - 1] = '\0';
  std::string_view view(text);  // "fi_sockaddr_in://127.0.0.1:4567"
  if (const auto at = view.find("://"); at != view.npos) view.remove_prefix(at + 3);
  return std::string(view);
}

// Registered for one operation only. A cache of our own would have to see every munmap; the EFA provider has one that
// does. No provider that can run on a plain host asks for this, so it has never run in our tests.
Status FabricDomain::register_memory(const void* bytes, std::size_t size, RegistrationHandle& registration) const {
  if (!(choice_.info->domain_attr->mr_mode & FI_MR_LOCAL) || size == 0) return {};
  const int rc =
      fi_mr_reg(domain_.get(), bytes, size, FI_SEND | FI_RECV, 0, next_key_++, 0, registration.out(), nullptr);
  return rc ? call_failed("fi_mr_reg", rc) : Status();
}

Result<RegistrationHandle> FabricDomain::register_devices(DeviceMemory& memory, const DeviceRange& range,
                                                          bool readable) const {
  return register_device_range(domain_.get(), memory, range, readable, next_key_++);
}

Status FabricDomain::register_landing(std::span<std::byte> bytes, RegistrationHandle& registration) const {
  if (!(choice_.info->domain_attr->mr_mode & FI_MR_LOCAL)) return {};
  const int rc =
      fi_mr_reg(domain_.get(), bytes.data(), bytes.size(), FI_READ, 0, next_key_++, 0, registration.out(), nullptr);
  return rc ? call_failed("fi_mr_reg", rc) : Status();
}

std::uint64_t FabricDomain::remote_address(const DeviceRegistration& registration, const std::byte* at) const {
  const std::byte* const zero =
      choice_.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? nullptr : registration.range.base;
  return static_cast<std::uint64_t>(at - zero);
}

ssize_t FabricDomain::read(fi_cq_msg_entry* entries, std::size_t count) const {
  return fi_cq_read(queue_.get(), entries, count);
}

ssize_t FabricDomain::read_blocking(fi_cq_msg_entry* entries, std::size_t count,
                                    std::chrono::milliseconds limit) const {
  return fi_cq_sread(queue_.get(), entries, count, nullptr, static_cast<int>(limit.count()));
}

Status FabricDomain::read_error(fi_cq_err_entry& entry) const {
  entry = {};  // zeroed: the provider's own buffer for its words is taken, not a wild one of ours
  const ssize_t rc = fi_cq_readerr(queue_.get(), &entry, 0);
  if (rc >= 1) return {};
  entry = {};
  return rc == 0 || rc == -FI_EAGAIN ? Status() : call_failed("fi_cq_readerr", rc);
}

std::string FabricDomain::words_for(int provider_number, const void* data) const {
  if (provider_number == 0 || !queue_->ops->strerror) return {};
  char room[256] = {};
  return shown(fi_cq_strerror(queue_.get(), provider_number, data, room, sizeof room));
}

ProviderError FabricDomain::told_of(const fi_cq_err_entry& entry) const {
  return {std::abs(entry.err), entry.prov_errno, words_for(entry.prov_errno, entry.err_data)};
}

// Its number is put into words by the completion queue: EFA's event queue is libfabric's common one, which takes the
// provider's numbers for those of errno.
std::optional<ProviderError> FabricDomain::device_error() const {
  if (!events_) return std::nullopt;
  std::uint32_t event = 0;
  char room[sizeof(fi_eq_cm_entry)];
  if (fi_eq_read(events_.get(), &event, room, sizeof room, 0) != -FI_EAVAIL) return std::nullopt;
  fi_eq_err_entry entry{};
  if (fi_eq_readerr(events_.get(), &entry, 0) < 0) return std::nullopt;
  return ProviderError{std::abs(entry.err), entry.prov_errno, words_for(entry.prov_errno, nullptr)};
}

void FabricDomain::signal() const {
  if (can_block_) fi_cq_signal(queue_.get());
}

}  // namespace fabring::fabric

#pragma once
// FabricDomain: one provider opened for use: fabric, domain, address vector and the one completion queue that all
// endpoints share, so that a single blocking read waits for every peer. Owned by the FabricEndpoint and used by its
// thread; only signal() may be called from others.

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "fabring/status.hpp"
#include "transports/fabric/device_registrations.hpp"
#include "transports/fabric/error_text.hpp"
#include "transports/fabric/handles.hpp"
#include "transports/fabric/provider_choice.hpp"

namespace fabring::fabric {

class FabricDomain {
 public:
  /// Room for `completions` entries is asked for and at least that of the provider's default is granted.
  static Result<std::unique_ptr<FabricDomain>> open(ProviderChoice choice, std::size_t completions);

  const fi_info& info() const { return *choice_.info; }
  Kind kind() const { return choice_.kind; }
  const std::string& reason() const { return choice_.reason; }
  /// What is known before anything was registered.
  const DeviceVerdict& device_verdict() const { return choice_.device; }
  std::size_t inject_bytes() const { return choice_.info->tx_attr->inject_size; }

  /// An enabled endpoint on the chosen address; a TCP one listens on a port of its own. `device`, if it is direct,
  /// stays so only if the endpoint promises to leave memory of GPUs to the card.
  Result<EndpointHandle> open_endpoint(DeviceVerdict* device = nullptr) const;
  /// The bytes by which others reach it.
  Result<std::string> name_of(fid_ep* endpoint) const;
  /// Errors: invalid_argument for bytes that cannot be a name of this provider.
  Result<fi_addr_t> insert(std::string_view name) const;
  /// "127.0.0.1:41234"
  std::string readable(std::string_view name) const;
  /// Empty, and success, where the provider takes any memory.
  Status register_memory(const void* bytes, std::size_t size, RegistrationHandle& registration) const;

  /// `readable`: also to be read over the card.
  Result<RegistrationHandle> register_devices(DeviceMemory& memory, const DeviceRange& range, bool readable) const;
  /// Registers host memory that is read into, where the provider wants that.
  Status register_landing(std::span<std::byte> bytes, RegistrationHandle& registration) const;
  /// What a read names a byte of registered memory by.
  std::uint64_t remote_address(const DeviceRegistration& registration, const std::byte* at) const;

  /// Should a receive name the peer's address? The tag names the peer too.
  bool directs_receives() const { return (choice_.info->caps & FI_DIRECTED_RECV) != 0; }

  /// As fi_cq_read: the number of entries, -FI_EAGAIN, -FI_EAVAIL, ...
  ssize_t read(fi_cq_msg_entry* entries, std::size_t count) const;
  /// Does read_blocking() wait for entries? The caller must nap instead where there is no wait object, and where no
  /// other thread may wake who waits (EFA is asked for FI_THREAD_DOMAIN, so there on any version).
  bool can_block() const { return can_block_; }
  bool may_be_woken() const { return choice_.info->domain_attr->threading == FI_THREAD_SAFE; }
  ssize_t read_blocking(fi_cq_msg_entry* entries, std::size_t count, std::chrono::milliseconds limit) const;
  /// The entry that -FI_EAVAIL was about, if there is one (`op_context`); an error: the queue has failed.
  Status read_error(fi_cq_err_entry& entry) const;
  /// What the provider says of the entry that read_error() gave last, before anything else is read.
  ProviderError told_of(const fi_cq_err_entry& entry) const;
  /// EFA: the next error of no operation; nothing: there is none.
  std::optional<ProviderError> device_error() const;
  void signal() const;

 private:
  explicit FabricDomain(ProviderChoice choice) : choice_(std::move(choice)) {}
  Status open_queue(std::size_t completions);
  bool plausible(std::string_view name) const;
  std::string words_for(int provider_number, const void* data) const;

  ProviderChoice choice_;
  FabricHandle fabric_;
  EventQueueHandle events_;  // EFA: for its errors of no operation; without it, it ends the process at one
  DomainHandle domain_;
  AddressVectorHandle addresses_;
  CompletionQueueHandle queue_;
  bool can_block_ = false;
  mutable std::uint64_t next_key_ = 1;  // where we, not the provider, choose the keys of registrations
};

}  // namespace fabring::fabric

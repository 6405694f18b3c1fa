// FabricEndpoint: memory of GPUs.

#include <utility>

#include "transports/fabric/error_text.hpp"
#include "transports/fabric/fabric_endpoint.hpp"

namespace fabring::fabric {
namespace {

constexpr std::size_t trial_bytes = 64 * 1024;

}  // namespace

// What a provider says of itself is proved by registering memory of the GPU that is used here. If none is yet, the
// first operation's is tried.
void FabricEndpoint::open_for_devices(const std::shared_ptr<DeviceMemory>& memory) {
  const Status ready = prepare_landing();
  if (!ready.ok()) return settle(ready, "");
  registrations_ =
      std::make_unique<DeviceRegistrations>(memory, [this, memory](const DeviceRange& range, bool readable) {
        return domain_->register_devices(*memory, range, readable);
      });
  if (const std::shared_ptr<std::byte> block = memory->block_to_try(trial_bytes))
    settle(registrations_->prove({block.get(), trial_bytes}), "a block of memory");
}

Status FabricEndpoint::prepare_landing() {
  landing_ = std::make_unique<Landing>();
  const auto own = domain_->insert(name_);
  if (!own) return own.error();
  landing_->own = *own;
  return domain_->register_landing(landing_->bytes, landing_->registration);
}

void FabricEndpoint::settle(const Status& tried, const char* with) {
  const std::lock_guard lock(device_mutex_);
  tried_ = true;
  device_.direct = tried.ok();
  device_.reason += tried.ok() ? std::string(", tried with ") + with : ", but " + tried.message();
}

// A card that does not reach this GPU is not asked again; of other refusals only this buffer is the reason.
Result<std::shared_ptr<const void>> FabricEndpoint::admit_device_memory(std::span<const Rank>,
                                                                        std::span<const std::byte> memory) {
  if (!reaches_devices() || closed_) return Status(ErrorCode::unsupported, verdict().reason);
  if (!tried_) {
    const Status tried = registrations_->prove(memory);
    if (tried.ok() || tried.code() == ErrorCode::unavailable) settle(tried, "the first buffer");
    FABRING_TRY(tried);
  }
  return registrations_->admit(memory);
}

DeviceVerdict FabricEndpoint::verdict() const {
  const std::lock_guard lock(device_mutex_);
  return device_;
}

bool FabricEndpoint::reaches_devices() const { return registrations_ && verdict().direct; }

std::string FabricEndpoint::device_path() const {
  const std::string reason = verdict().reason;
  if (!reaches_devices()) return "through pinned memory of the host: " + reason;
  return "what is only moved is read and written by the card itself, all else goes through pinned memory of the "
         "host: " +
         reason + (tried_ ? "" : ", not tried: no GPU is used yet");
}

void* FabricEndpoint::descriptor_for(Operation& operation, std::span<const std::byte> bytes) {
  if (!registrations_) return nullptr;
  operation.device = registrations_->find(bytes);
  operation.at = bytes.data();
  return operation.device ? fi_mr_desc(operation.device->handle.get()) : nullptr;
}

// A read of this rank's own memory through the same card comes behind all that the card wrote there before. The record
// of the receive, which libfabric has given back, is that of the read now.
void FabricEndpoint::flush(Operation& operation) {
  operation.kind = OperationKind::flush;
  const DeviceRegistration& device = *operation.device;
  void* const local = landing_->registration ? fi_mr_desc(landing_->registration.get()) : nullptr;
  const ssize_t rc = fi_read(shared_.get(), landing_->bytes, 1, local, landing_->own,
                             domain_->remote_address(device, operation.at + operation.received - 1),
                             fi_mr_key(device.handle.get()), &operation);
  if (rc == 0) return;
  if (rc == -FI_EAGAIN) return to_flush_.push_back(&operation);
  Peer& peer = *operation.peer;
  finish(operation, Outcome::lost, 0);
  lose(peer, call_failed("fi_read", rc).with_prefix("what it sent could not be made visible to the GPU: "));
}

void FabricEndpoint::flush_again() {
  for (Operation* operation : std::exchange(to_flush_, {})) flush(*operation);
}

}  // namespace fabring::fabric

// FabricEndpoint: memory of GPUs.

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "transports/fabric/error_text.hpp"
#include "transports/fabric/fabric_endpoint.hpp"

namespace fabring::fabric {
namespace {

constexpr std::size_t trial_bytes = 64 * 1024;
constexpr auto time_to_try_again = std::chrono::seconds(1);  // as where a GPU has no memory left

}  // namespace

// What a provider says of itself is proved by registering memory of the GPU that is used here. If none is yet, the
// first operation's is tried, as is that of each other GPU.
void FabricEndpoint::open_for_devices(const std::shared_ptr<DeviceMemory>& memory) {
  const Status ready = prepare_landing();
  if (!ready.ok()) return note(ready, "");
  registrations_ =
      std::make_unique<DeviceRegistrations>(memory, [this, memory](const DeviceRange& range, bool readable) {
        return domain_->register_devices(*memory, range, readable);
      });
  const std::shared_ptr<std::byte> block = memory->block_to_try(trial_bytes);
  if (!block) return;
  const std::span<const std::byte> bytes{block.get(), trial_bytes};
  if (const auto allocation = registrations_->look_up(bytes)) (void)try_device(*allocation, bytes, "a block of memory");
}

Status FabricEndpoint::prepare_landing() {
  landing_ = std::make_unique<Landing>();
  const auto own = domain_->insert(name_);
  if (!own) return own.error();
  landing_->own = *own;
  return domain_->register_landing(landing_->bytes, landing_->registration);
}

void FabricEndpoint::note(const Status& tried, const char* with) {
  const std::lock_guard lock(device_mutex_);
  device_.reason += tried.ok() ? std::string(", tried with ") + with : ", but " + tried.message();
}

// A GPU that the card does not reach is not tried again; where the host is short of something, it may have it later. Of
// other refusals only this memory is the reason.
Status FabricEndpoint::try_device(const DeviceAllocation& allocation, std::span<const std::byte> memory,
                                  const char* with) {
  const auto known = trials_.find(allocation.device);
  if (known != trials_.end() && (!known->second.again || now() < *known->second.again)) return known->second.answer;
  const Status answer = registrations_->prove(allocation, memory);
  const bool settled = answer.ok() || answer.code() == ErrorCode::unavailable;
  if (!settled && answer.code() != ErrorCode::out_of_memory) return answer;
  if (settled) note(answer, with);
  const std::lock_guard lock(device_mutex_);
  trials_[allocation.device] = {answer, settled ? std::nullopt : std::optional(now() + time_to_try_again)};
  return answer;
}

Result<std::shared_ptr<const void>> FabricEndpoint::admit_device_memory(std::span<const Rank>,
                                                                        std::span<const std::byte> memory) {
  const DeviceVerdict of_provider = verdict();
  if (!registrations_ || !of_provider.direct || closed_) return Status(ErrorCode::unsupported, of_provider.reason);
  const auto allocation = registrations_->look_up(memory);
  if (!allocation) return allocation.error();
  FABRING_TRY(try_device(*allocation, memory, "the first buffer"));
  return registrations_->admit(*allocation, memory);
}

DeviceVerdict FabricEndpoint::verdict() const {
  const std::lock_guard lock(device_mutex_);
  return device_;
}

// Unless it was tried and none is in reach.
bool FabricEndpoint::reaches_devices() const {
  if (!registrations_) return false;
  const std::lock_guard lock(device_mutex_);
  return device_.direct && (trials_.empty() || std::any_of(trials_.begin(), trials_.end(), [](const auto& one) {
                              return one.second.answer.ok() || one.second.again;
                            }));
}

std::string FabricEndpoint::device_path() const {
  std::string reason = verdict().reason;
  if (!reaches_devices()) return "through pinned memory of the host: " + reason;
  {
    const std::lock_guard lock(device_mutex_);
    if (trials_.empty()) reason += ", not tried: no GPU is used yet";
    for (const auto& [device, trial] : trials_)
      if (trial.again) reason += ", but for now " + trial.answer.message();
  }
  return "what is only moved is read and written by the card itself, all else goes through pinned memory of the "
         "host: " +
         reason;
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

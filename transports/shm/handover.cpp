#include "transports/shm/handover.hpp"

#include <array>

#include "runtime/base/check.hpp"
#include "transports/endpoint.hpp"
#include "transports/shm/descriptor_message.hpp"

namespace fabring::shm {
namespace {

static_assert(Endpoint::most_descriptors <= DescriptorMessage::most_descriptors);

constexpr int most_at_once = 1024;  // a peer that never stops must not keep this rank here

struct Label {
  static constexpr std::uint64_t magic_number = 0x31564f444e414846;
  std::uint64_t magic = magic_number;
  std::uint64_t number = 0;
  std::uint64_t count = 0;  ///< of the descriptors
};

}  // namespace

std::optional<std::uint64_t> Handover::send(int socket, std::span<const Descriptor> descriptors) {
  FABRING_CHECK(!descriptors.empty() && descriptors.size() <= Endpoint::most_descriptors);
  std::array<int, Endpoint::most_descriptors> fds{};
  for (std::size_t i = 0; i < descriptors.size(); ++i) fds[i] = descriptors[i].fd();
  const Label label{Label::magic_number, sent_ + 1, descriptors.size()};
  if (!DescriptorMessage::say(socket, std::as_bytes(std::span(&label, 1)), {fds.data(), descriptors.size()}))
    return std::nullopt;
  return ++sent_;
}

Handover::Heard Handover::hear(int socket) {
  for (int i = 0; i < most_at_once; ++i) {
    Label label;
    Parcel parcel;
    std::size_t bytes = 0;
    const auto heard =
        DescriptorMessage::hear(socket, std::as_writable_bytes(std::span(&label, 1)), bytes, parcel.descriptors);
    if (heard == DescriptorMessage::Heard::nothing_yet) return Heard::all;
    if (heard == DescriptorMessage::Heard::ended) return Heard::ended;
    if (bytes != sizeof label || label.magic != Label::magic_number || label.number == 0 || label.count == 0 ||
        label.count > Endpoint::most_descriptors)
      return Heard::nonsense;
    const bool complete = heard == DescriptorMessage::Heard::message && parcel.descriptors.size() == label.count;
    if (heard == DescriptorMessage::Heard::message && !complete) return Heard::nonsense;
    if (!complete) parcel.descriptors.clear();
    parcel.number = label.number;
    kept_.push_back(std::move(parcel));
    if (kept_.size() > most_kept) kept_.pop_front();
  }
  return Heard::all;
}

std::optional<std::vector<Descriptor>> Handover::take(std::uint64_t number) {
  while (!kept_.empty() && kept_.front().number < number) kept_.pop_front();
  if (kept_.empty() || kept_.front().number != number) return std::nullopt;
  std::vector<Descriptor> descriptors = std::move(kept_.front().descriptors);
  kept_.pop_front();
  return descriptors;
}

}  // namespace fabring::shm

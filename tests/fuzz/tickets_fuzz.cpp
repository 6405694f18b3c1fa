// Where a message lies in memory of a device, as a peer says it: two tickets of this many bytes, one behind the other.

#include "runtime/engine/device/device_ticket.hpp"
#include "tests/fuzz/targets.hpp"

namespace fabring::fuzz::tickets {
namespace {

constexpr std::size_t message = 4096;

std::string_view bytes_of(const DeviceTicket& ticket) {
  return {reinterpret_cast<const char*>(ticket.as_bytes().data()), ticket.as_bytes().size()};
}

DeviceTicket good() {
  DeviceTicket ticket;
  ticket.bytes = message;
  ticket.facts.process = {1, 4711, 99};
  ticket.facts.base = 0x7f0000000000;
  ticket.facts.bytes = 1 << 20;
  ticket.facts.offset = 8192;
  ticket.facts.pieces = 2;
  ticket.facts.piece_bytes = {512 << 10, 512 << 10};
  ticket.facts.piece_numbers = {1, 2};
  return ticket;
}

}  // namespace

void run(std::string_view input) {
  const std::string_view first = input.substr(0, sizeof(DeviceTicket));
  const auto one = DeviceTicket::read(std::as_bytes(std::span(first)), message);
  if (!one) return;
  require(bytes_of(*one) == first, "a ticket stays what it is");
  require(one->facts.offset + message <= one->facts.bytes && one->facts.offset + message >= message,
          "the message lies in the allocation");
  require(same_memory(one->facts, one->facts) || one->facts.allocation == 0 || one->facts.pieces > 0,
          "known memory is the same as itself");
  const auto other = DeviceTicket::read(std::as_bytes(std::span(input.substr(first.size()))), message);
  if (!other) return;
  require(same_memory(one->facts, other->facts) == same_memory(other->facts, one->facts), "both ways");
  require(contradict(one->facts, other->facts) == contradict(other->facts, one->facts), "likewise");
}

Seeds seeds() {
  DeviceTicket moved = good();
  moved.facts.base += 512 << 10;
  moved.facts.piece_numbers = {2, 3};
  DeviceTicket whole = good();
  whole.facts.pieces = 0;
  whole.facts.allocation = 5;
  return {std::string(bytes_of(good())) + std::string(bytes_of(moved)),
          std::string(bytes_of(whole)) + std::string(bytes_of(whole))};
}

}  // namespace fabring::fuzz::tickets

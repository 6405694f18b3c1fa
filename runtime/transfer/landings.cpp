#include "runtime/transfer/landings.hpp"

#include "runtime/base/check.hpp"

namespace fabring {
namespace {

constexpr std::align_val_t whole_pages{4096};

// Its pages are touched as far as they are used.
std::byte* allocate(const LandingRules& rules) {
  return rules.count == 0 ? nullptr : new (whole_pages) std::byte[rules.count * rules.bytes];
}

}  // namespace

Landings::Landings(const LandingRules& rules) : rules_(rules), memory_(allocate(rules)) {
  FABRING_CHECK(rules.count <= most_landings);
}

Landings::~Landings() { ::operator delete[](memory_, whole_pages); }

std::uint32_t Landings::take_room() {
  const std::uint32_t number = sent_++;
  being_sent_[index_of(number)] = true;
  sent_to_[index_of(number)] = number;
  return number;
}

bool Landings::are_let_go(std::uint32_t last) const {
  for (std::uint32_t index = 0; index < rules_.count; ++index)
    if (being_sent_[index] && last - sent_to_[index] < rules_.count) return false;
  return true;
}

void Landings::heard_emptied(std::uint8_t count) {
  const auto more = static_cast<std::uint8_t>(count - static_cast<std::uint8_t>(returned_));
  if (more <= sent_ - returned_) returned_ += more;
}

Landings::Find Landings::find(std::uint32_t slot, std::size_t bytes, std::span<const std::byte>& payload) const {
  const std::uint32_t index = slot - first_landing_slot;
  if (index >= rules_.count || bytes > rules_.bytes) return Find::impossible;
  if (!came_[index]) return Find::to_come;
  if (*came_[index] != bytes) return Find::impossible;
  payload = {memory(index).data(), bytes};
  return Find::there;
}

void Landings::empty(std::uint32_t index) { came_[index].reset(); }

void Landings::posted_again(std::uint32_t index) {
  emptied_out_of_turn_[index] = true;
  for (; emptied_out_of_turn_[index_of(emptied_)]; ++emptied_) emptied_out_of_turn_[index_of(emptied_)] = false;
}

}  // namespace fabring

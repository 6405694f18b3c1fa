#include "topology/pci.hpp"

#include <charconv>
#include <cstdio>

namespace fabring {
namespace {

// Takes a hexadecimal number of at most `digits` digits and the character `after` it (0: the end).
std::optional<std::uint32_t> take_hex(std::string_view& text, std::size_t digits, char after) {
  const std::size_t end = after == 0 ? text.size() : text.find(after);
  if (end == std::string_view::npos || end == 0 || end > digits) return std::nullopt;
  std::uint32_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + end, value, 16);
  if (error != std::errc{} || rest != text.data() + end) return std::nullopt;
  text.remove_prefix(after == 0 ? end : end + 1);
  return value;
}

}  // namespace

std::string text(const PciAddress& address) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%04x:%02x:%02x.%x", address.domain, address.bus, address.device,
                address.function);
  return buffer;
}

std::optional<PciAddress> parse_pci_address(std::string_view text) {
  PciAddress address;
  if (text.find(':') != text.rfind(':')) {
    const auto domain = take_hex(text, 8, ':');
    if (!domain) return std::nullopt;
    address.domain = *domain;
  }
  const auto bus = take_hex(text, 2, ':');
  if (!bus) return std::nullopt;
  const auto device = take_hex(text, 2, '.');
  if (!device || *device > 31) return std::nullopt;
  const auto function = take_hex(text, 1, 0);
  if (!function || *function > 7) return std::nullopt;
  address.bus = static_cast<std::uint8_t>(*bus);
  address.device = static_cast<std::uint8_t>(*device);
  address.function = static_cast<std::uint8_t>(*function);
  return address;
}

double link_gigabytes(double gigatransfers, int lanes) {
  const double coded = gigatransfers > 5 ? gigatransfers * 128 / 130 : gigatransfers * 8 / 10;
  return coded * lanes / 8;
}

}  // namespace fabring

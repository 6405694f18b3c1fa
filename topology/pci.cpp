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

std::string recorded_link(const PciLink& link) {
  char buffer[96];
  std::snprintf(buffer, sizeof buffer, "%g x%d of %g x%d", link.gigatransfers_now, link.lanes_now,
                link.gigatransfers_best, link.lanes_best);
  return buffer;
}

PciLink parse_recorded_link(const std::string& text) {
  PciLink link;
  if (std::sscanf(text.c_str(), "%lf x%d of %lf x%d", &link.gigatransfers_now, &link.lanes_now,
                  &link.gigatransfers_best, &link.lanes_best) != 4)
    return {};
  const auto sane = [](double speed, int lanes) { return speed >= 0 && speed < 1000 && lanes >= 0 && lanes <= 64; };
  return sane(link.gigatransfers_now, link.lanes_now) && sane(link.gigatransfers_best, link.lanes_best) ? link
                                                                                                        : PciLink{};
}

double link_gigabytes(double gigatransfers, int lanes) {
  const double coded = gigatransfers > 5 ? gigatransfers * 128 / 130 : gigatransfers * 8 / 10;
  return coded * lanes / 8;
}

}  // namespace fabring

#pragma once
// Where a device sits on the PCI bus, and how fast its link runs now and could run at best.

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace fabring {

struct PciAddress {
  std::uint32_t domain = 0;
  std::uint8_t bus = 0;
  std::uint8_t device = 0;
  std::uint8_t function = 0;
  auto operator<=>(const PciAddress&) const = default;
};

/// "0000:a1:00.0"
std::string text(const PciAddress& address);
/// Of "0000:a1:00.0", or "a1:00.0" in domain 0. Nothing when it is not an address.
std::optional<PciAddress> parse_pci_address(std::string_view text);

/// One direction of a PCI Express link; 0 where the kernel does not say.
struct PciLink {
  double gigatransfers_now = 0;  ///< per second and lane
  int lanes_now = 0;
  double gigatransfers_best = 0;  ///< what device and slot both can
  int lanes_best = 0;

  bool known() const { return gigatransfers_now > 0 && lanes_now > 0; }
  bool below_best() const { return known() && (gigatransfers_now < gigatransfers_best || lanes_now < lanes_best); }
};

/// "8 x16 of 16 x16", as a recorded machine has it, and back; an unknown link for what is no such text.
std::string recorded_link(const PciLink& link);
PciLink parse_recorded_link(const std::string& text);

/// Gigabytes per second and direction after the line code (8b/10b up to 5 GT/s, 128b/130b above); packet headers take
/// another tenth or so.
double link_gigabytes(double gigatransfers, int lanes);

}  // namespace fabring

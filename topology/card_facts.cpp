#include "topology/card_facts.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>

namespace fabring {
namespace {

namespace fs = std::filesystem;

// The first line, at most 4 KiB; empty when there is none.
std::string read_line(const fs::path& file) {
  std::ifstream in(file);
  char buffer[4096] = "";
  in.getline(buffer, sizeof buffer);
  return buffer;
}

template <class Number>
Number number_in(const fs::path& file, Number least, Number most, Number otherwise) {
  const std::string text = read_line(file);
  long long value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || rest == text.data() || value < static_cast<long long>(least) ||
      value > static_cast<long long>(most))
    return otherwise;
  return static_cast<Number>(value);
}

std::string link_target_name(const fs::path& link) {
  std::error_code error;
  return fs::read_symlink(link, error).filename().string();
}

struct Ends {
  double speed = 0;
  int lanes = 0;
};

Ends best_of(const fs::path& device) {
  return {parse_link_speed(read_line(device / "max_link_speed")), number_in(device / "max_link_width", 1, 64, 0)};
}

PciLink read_link(const fs::path& device) {
  PciLink link;
  link.gigatransfers_now = parse_link_speed(read_line(device / "current_link_speed"));
  link.lanes_now = number_in(device / "current_link_width", 1, 64, 0);
  const Ends own = best_of(device);
  link.gigatransfers_best = own.speed;
  link.lanes_best = own.lanes;
  // A fast card in a slow slot runs at its best; the slot is the parent in the tree of devices.
  std::error_code error;
  const fs::path real = fs::canonical(device, error);
  if (error) return link;
  const Ends slot = best_of(real.parent_path());
  if (slot.speed > 0) link.gigatransfers_best = std::min(link.gigatransfers_best, slot.speed);
  if (slot.lanes > 0) link.lanes_best = std::min(link.lanes_best, slot.lanes);
  return link;
}

void read_place(Place& place, const fs::path& device, const Topology& topology) {
  if (place.numa >= 0) return;
  const int node = number_in(device / "numa_node", 0, 1 << 16, -1);
  for (const NumaNode& numa : topology.numa)
    if (numa.number == node) {
      place.numa = node;
      place.package = numa.package;
      place.cpus = numa.cpus;
    }
}

void read_interface(Nic& nic, const fs::path& root) {
  const fs::path folder = root / "sys/class/net" / nic.interface;
  nic.mtu_bytes = number_in<std::uint32_t>(folder / "mtu", 1, 1u << 20, 0);
  // Reading the speed of a port that is down is an error of the read, and the file says -1 where nobody knows.
  nic.megabits = number_in<std::uint32_t>(folder / "speed", 1, 100'000'000, 0);
  const std::string state = read_line(folder / "operstate");
  if (state == "up") nic.state = LinkState::up;
  if (state == "down" || state == "lowerlayerdown" || state == "notpresent" || state == "dormant")
    nic.state = LinkState::down;
  if (nic.driver.empty()) nic.driver = link_target_name(folder / "device/driver");
}

void read_rdma(Nic& nic, const fs::path& root) {
  const fs::path port = root / "sys/class/infiniband" / nic.rdma / "ports/1";
  if (nic.megabits == 0) nic.megabits = port_megabits(nic.rdma, root);
  const std::string state = read_line(port / "state");
  if (nic.state == LinkState::unknown && !state.empty())
    nic.state = state.find("ACTIVE") != std::string::npos ? LinkState::up : LinkState::down;
  if (nic.kind == NicKind::ethernet && read_line(port / "link_layer") == "InfiniBand") nic.kind = NicKind::infiniband;
}

void add_interfaces(Topology& topology, const fs::path& root) {
  std::error_code error;
  std::vector<std::string> others;
  bool something_physical = false;
  for (const auto& entry : fs::directory_iterator(root / "sys/class/net", error)) {
    const std::string interface = entry.path().filename().string();
    const bool device = fs::exists(entry.path() / "device", error);
    something_physical = something_physical || device;
    const bool known = std::any_of(topology.nics.begin(), topology.nics.end(),
                                   [&](const Nic& nic) { return nic.interface == interface; });
    if (!known && interface != "lo" && interface != "bonding_masters") others.push_back(interface);
  }
  std::sort(others.begin(), others.end());
  for (const std::string& interface : others) {
    const fs::path folder = root / "sys/class/net" / interface;
    const bool device = fs::exists(folder / "device", error);
    // Beside real cards, bridges and the like carry nothing of their own.
    if (!device && something_physical && !fs::exists(folder / "bonding", error)) continue;
    Nic nic;
    nic.interface = interface;
    nic.kind = device ? NicKind::ethernet : NicKind::virtual_interface;
    read_place(nic.place, folder / "device", topology);
    read_interface(nic, root);
    topology.nics.push_back(std::move(nic));
  }
}

}  // namespace

std::uint32_t port_megabits(const std::string& device, const std::filesystem::path& root) {
  if (device.empty() || device[0] == '.' || device.find('/') != std::string::npos) return 0;
  return parse_port_rate(read_line(root / "sys/class/infiniband" / device / "ports/1/rate"));
}

double parse_link_speed(std::string_view text) {
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  return error == std::errc{} && unit.starts_with(" GT/s") && value > 0 && value < 1000 ? value : 0;
}

std::uint32_t parse_port_rate(std::string_view text) {
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  return error == std::errc{} && unit.starts_with(" Gb/sec") && value > 0 && value < 100'000
             ? static_cast<std::uint32_t>(value * 1000)
             : 0;
}

void add_card_facts(Topology& topology, const std::filesystem::path& root) {
  const auto folder = [&](const PciAddress& address) { return root / "sys/bus/pci/devices" / text(address); };
  for (Gpu& gpu : topology.gpus) {
    gpu.link = read_link(folder(gpu.pci));
    read_place(gpu.place, folder(gpu.pci), topology);
  }
  for (Nic& nic : topology.nics) {
    if (nic.pci) {
      nic.link = read_link(folder(*nic.pci));
      nic.driver = link_target_name(folder(*nic.pci) / "driver");
      read_place(nic.place, folder(*nic.pci), topology);
    }
    if (!nic.interface.empty()) read_interface(nic, root);
    if (!nic.rdma.empty()) read_rdma(nic, root);
  }
  add_interfaces(topology, root);
}

}  // namespace fabring

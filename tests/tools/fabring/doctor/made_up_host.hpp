#pragma once
// A made-up host: a healthy one to begin with, whose /proc and /sys lie in a folder of the test's own, and to which a
// test does one harm. The checks of `doctor host` see nothing else.

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "tools/fabring/doctor/finding.hpp"
#include "tools/fabring/doctor/host_facts.hpp"

namespace fabring::tests {

class MadeUpHost {
 public:
  MadeUpHost();  // healthy: two NUMA nodes with 8 processors each, eth0 and eth1 at 100 Gbit/s
  ~MadeUpHost();
  MadeUpHost(const MadeUpHost&) = delete;
  MadeUpHost& operator=(const MadeUpHost&) = delete;

  /// Writes a file below the made-up root.
  void write(const std::string& file, const std::string& text);
  /// Makes a symbolic link there, or another of it.
  void link(const std::string& file, const std::string& target);
  void remove(const std::string& file);
  /// One row of /proc/self/limits.
  void limit(const std::string& name, const std::string& soft, const std::string& hard);
  /// Adds an EFA card with its driver and device.
  void add_efa();
  /// Adds a GPU of NVIDIA with the driver's open modules, below the same switch as an EFA card.
  void add_gpu();

  Topology& topology() { return facts.topology->value(); }
  tools::Findings check() const;

  tools::HostFacts facts;

 private:
  void write_limits();
  std::filesystem::path root_;
  std::vector<std::array<std::string, 3>> limits_;
};

/// A card that a rank would use, with an address in 10.0.0.0/24.
RailChoice::Rail rail(const std::string& interface, std::uint32_t megabits = 100'000,
                      const std::string& address = "10.0.0.5");

/// The configuration of a PCI bridge whose Access Control Services do what these bits say.
std::string bridge_with_acs(unsigned char control);

}  // namespace fabring::tests

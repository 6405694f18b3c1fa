#pragma once
// Machines that nobody has at hand, as hwloc's XML: packages with memory and cores, PCI switches with GPUs and network
// cards below them. Made here, so that the tests know what is in them.

#include <string>
#include <vector>

namespace fabring::tests {

struct SwitchSketch {
  int gpus = 0;
  int efa = 0;          ///< EFA devices without an interface, 100 Gbit/s
  int ethernet = 0;     ///< cards with an interface (eth0, eth1, ... over the whole machine)
  bool direct = false;  ///< below the root port, without a switch
  int amd_displays = 0;
  std::string bridge = "1000:c030";  ///< vendor and device of the switch
};

struct MachineSketch {
  std::string name = "machine";
  int packages = 2;
  int cores_per_package = 4;
  std::vector<std::vector<SwitchSketch>> switches;  ///< of each package
  std::vector<int> allowed;                         ///< processors; empty: all
  bool pci = true;                                  ///< false: no PCI at all
  bool flat = false;  ///< devices below the Machine object, as virtual machines that hide the tree show them
};

std::string machine_xml(const MachineSketch& sketch);

MachineSketch p4d_like();         ///< 2 packages, each 2 switches of 2 GPUs and 1 EFA; one ethernet card
MachineSketch p5_like();          ///< 2 packages, each 4 switches of 1 GPU and 4 EFA; one ethernet card
MachineSketch two_sockets();      ///< no GPU, an ethernet card on each package
MachineSketch bare_vm();          ///< 1 package, no PCI
MachineSketch small_container();  ///< 2 packages of 32 cores, 2 of them allowed, on package 1; one card on each

/// Writes it to a file of this test's own and returns the path.
std::string machine_file(const MachineSketch& sketch);

}  // namespace fabring::tests

#include "tests/topology/machine_xml.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

namespace fabring::tests {
namespace {

std::string format(const char* pattern, auto... values) {
  char buffer[1024];
  std::snprintf(buffer, sizeof buffer, pattern, values...);
  return buffer;
}

// hwloc's notation: words of 32 bits, the highest first.
std::string bitmap(const std::vector<int>& numbers) {
  const int words = numbers.empty() ? 1 : *std::max_element(numbers.begin(), numbers.end()) / 32 + 1;
  std::string text;
  for (int word = words - 1; word >= 0; --word) {
    unsigned bits = 0;
    for (const int number : numbers)
      if (number / 32 == word) bits |= 1u << (number % 32);
    text += (text.empty() ? "" : ",") + format("0x%08x", bits);
  }
  return text;
}

std::vector<int> range(int from, int count) {
  std::vector<int> numbers;
  for (int i = 0; i < count; ++i) numbers.push_back(from + i);
  return numbers;
}

class Writer {
 public:
  explicit Writer(const MachineSketch& sketch) : sketch_(sketch) {}

  std::string write() && {
    const std::vector<int> all = range(0, sketch_.packages * sketch_.cores_per_package);
    const std::vector<int> nodes = range(0, sketch_.packages);
    out_ =
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology "
        "version=\"2.0\">\n";
    out_ += "<object type=\"Machine\" os_index=\"0\"" +
            sets(all, sketch_.allowed.empty() ? all : sketch_.allowed, nodes) + ">\n";
    out_ += "<info name=\"HostName\" value=\"" + sketch_.name + "\"/>\n";
    for (int package = 0; package < sketch_.packages; ++package) write_package(package);
    for (int package = 0; sketch_.flat && package < sketch_.packages; ++package) write_devices(package);
    out_ += "</object>\n";
    if (sketch_.packages == 2)
      out_ +=
          "<distances2 type=\"NUMANode\" nbobjs=\"2\" kind=\"5\" name=\"NUMALatency\" indexing=\"os\">\n"
          "<indexes length=\"4\">0 1 </indexes>\n<u64values length=\"12\">10 21 21 10 </u64values>\n</distances2>\n";
    return out_ + "</topology>\n";
  }

 private:
  std::string index() { return format(" gp_index=\"%d\"", ++index_); }

  std::string sets(const std::vector<int>& cpus, const std::vector<int>& allowed, const std::vector<int>& nodes) {
    const std::string c = bitmap(cpus), n = bitmap(nodes);
    std::string text = " cpuset=\"" + c + "\" complete_cpuset=\"" + c + "\"";
    if (!allowed.empty()) text += " allowed_cpuset=\"" + bitmap(allowed) + "\"";
    text += " nodeset=\"" + n + "\" complete_nodeset=\"" + n + "\"";
    if (!allowed.empty()) text += " allowed_nodeset=\"" + n + "\"";
    return text + index();
  }

  void write_package(int package) {
    const int cores = sketch_.cores_per_package;
    const std::vector<int> cpus = range(package * cores, cores), node{package};
    out_ += format("<object type=\"Package\" os_index=\"%d\"", package) + sets(cpus, {}, node) + ">\n";
    out_ += "<info name=\"CPUModel\" value=\"Example 9000\"/>\n";
    out_ += format("<object type=\"NUMANode\" os_index=\"%d\"", package) + sets(cpus, {}, node) +
            " local_memory=\"68719476736\"/>\n";
    out_ += "<object type=\"L3Cache\"" + sets(cpus, {}, node) +
            " cache_size=\"33554432\" depth=\"3\" cache_linesize=\"64\" cache_associativity=\"16\" cache_type=\"0\">\n";
    for (const int cpu : cpus) {
      out_ += format("<object type=\"Core\" os_index=\"%d\"", cpu) + sets({cpu}, {}, node) + ">";
      out_ += format("<object type=\"PU\" os_index=\"%d\"", cpu) + sets({cpu}, {}, node) + "/></object>\n";
    }
    out_ += "</object>\n";
    if (!sketch_.flat) write_devices(package);
    out_ += "</object>\n";
  }

  std::string bridge(const char* kind, int depth, int domain, int from, int to, int at, const std::string& id = {}) {
    const std::string address =
        kind[0] == '1'
            ? format(" pci_busid=\"%04x:00:%02x.0\" pci_type=\"0604 [%s] [0000:0000] b0\"", domain, at, id.c_str())
            : "";
    return "<object type=\"Bridge\"" + index() +
           format(" bridge_type=\"%s\" depth=\"%d\" bridge_pci=\"%04x:[%02x-%02x]\"", kind, depth, domain, from, to) +
           address + (address.empty() ? "" : " pci_link_speed=\"0.000000\"") + ">\n";
  }

  // Each package is a PCI domain; each switch has 16 buses.
  void write_devices(int package) {
    if (!sketch_.pci || static_cast<std::size_t>(package) >= sketch_.switches.size()) return;
    const auto& switches = sketch_.switches[static_cast<std::size_t>(package)];
    if (switches.empty()) return;
    out_ += bridge("0-1", 0, package, 0, 255, 0);
    int bus = 0;
    for (const SwitchSketch& one : switches) {
      bus += 16;
      if (!one.direct) out_ += bridge("1-1", 1, package, bus, bus + 15, bus / 16, one.bridge);
      int at = bus;
      for (int i = 0; i < one.gpus; ++i) device(package, at++, "0302 [10de:20b0] [10de:134f] a1", 31.5, {}, -1);
      for (int i = 0; i < one.efa; ++i, ++at, ++efa_)
        device(package, at, "0200 [1d0f:efa1] [1d0f:efa1] 00", 15.75, format("rdmap%ds%d", package * 256 + at, efa_),
               3);
      for (int i = 0; i < one.ethernet; ++i)
        device(package, at++, "0200 [1d0f:ec20] [1d0f:ec20] 00", 15.75, format("eth%d", ethernet_++), 2);
      for (int i = 0; i < one.amd_displays; ++i)
        device(package, at++, "0300 [1002:73bf] [1002:0e3a] c1", 15.75, {}, -1);
      if (!one.direct) out_ += "</object>\n";
    }
    out_ += "</object>\n";
  }

  void device(int domain, int bus, const char* type, double speed, const std::string& name, int osdev) {
    out_ += "<object type=\"PCIDev\"" + index() +
            format(" pci_busid=\"%04x:%02x:00.0\" pci_type=\"%s\" pci_link_speed=\"%f\">\n", domain, bus, type, speed);
    if (osdev >= 0) {
      out_ += "<object type=\"OSDev\"" + index() + " name=\"" + name + format("\" osdev_type=\"%d\">", osdev);
      out_ += "<info name=\"FabringState\" value=\"up\"/><info name=\"FabringMegabits\" value=\"100000\"/></object>\n";
    }
    out_ += "</object>\n";
  }

  const MachineSketch& sketch_;
  std::string out_;
  int index_ = 0, efa_ = 0, ethernet_ = 0;
};

}  // namespace

std::string machine_xml(const MachineSketch& sketch) { return Writer(sketch).write(); }

MachineSketch p4d_like() {
  const SwitchSketch one{2, 1, 0, false}, ena{0, 0, 1, true};
  return {"p4d-like", 2, 24, {{one, one, ena}, {one, one}}, {}, true, false};
}

MachineSketch p5_like() {
  const SwitchSketch one{1, 4, 0, false}, ena{0, 0, 1, true};
  return {"p5-like", 2, 48, {{one, one, one, one, ena}, {one, one, one, one}}, {}, true, false};
}

MachineSketch two_sockets() {
  const SwitchSketch ena{0, 0, 1, true};
  return {"two-sockets", 2, 8, {{ena}, {ena}}, {}, true, false};
}

MachineSketch bare_vm() { return {"bare-vm", 1, 4, {}, {}, false, false}; }

MachineSketch small_container() {
  const SwitchSketch ena{0, 0, 1, true};
  return {"small-container", 2, 32, {{ena}, {ena}}, {40, 41}, true, false};
}

std::string machine_file(const MachineSketch& sketch) {
  const std::string path = testing::TempDir() + "machine-" + sketch.name + "-" + std::to_string(::getpid()) + ".xml";
  std::ofstream(path) << machine_xml(sketch);
  return path;
}

}  // namespace fabring::tests

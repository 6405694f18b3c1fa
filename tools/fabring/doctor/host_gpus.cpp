// GPUs: whether a network card can reach their memory, and what stands between them. Nothing is said where there are
// none.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "tools/fabring/doctor/host_checks.hpp"
#include "topology/placement.hpp"

namespace fabring::tools {
namespace {

bool any_efa(const Topology& topology) {
  return std::any_of(topology.nics.begin(), topology.nics.end(),
                     [](const Nic& nic) { return nic.kind == NicKind::efa; });
}

bool is_nvidia(const Gpu& gpu) { return gpu.vendor_id == 0x10de; }

std::optional<Finding> others(const Topology& topology) {
  std::set<std::string> vendors;
  std::size_t count = 0;
  for (const Gpu& gpu : topology.gpus) {
    if (is_nvidia(gpu)) continue;
    vendors.insert(gpu.vendor_id == 0x1002 ? "AMD" : fmt::format("PCI vendor {:04x}", gpu.vendor_id));
    ++count;
  }
  if (count == 0) return std::nullopt;
  return note("gpu.vendor", fmt::format("{} GPU{} of {}: Fabring uses memory of NVIDIA GPUs only", count,
                                        count == 1 ? "" : "s", fmt::join(vendors, ", ")));
}

// The way that a job would take; whether a card really reaches the memory is tried when one starts.
Finding memory_path(const HostFacts& facts, const Topology& topology) {
  const std::string id = "gpu.path";
  if (facts.files.line("proc/driver/nvidia/version").value_or("").empty())
    return note(id, "without a driver no GPU memory can be sent: fabring perf --memory cuda would say 'no GPU'");
  const std::string staged = "GPU memory travels through pinned memory of the host (FABRING_STAGING_BYTES)";
  if (!facts.device_path) return fine(id, staged);
  const auto& [direct, reason] = *facts.device_path;
  if (direct)
    return fine(id,
                fmt::format("the card reads and writes GPU memory where data are only moved ({}); a job tries it when "
                            "it starts, and FABRING_EXPLAIN=1 says what came of it",
                            reason));
  if (!any_efa(topology)) return fine(id, fmt::format("{}: {}", staged, reason));
  return {id,
          Severity::warning,
          fmt::format("{}, although there is EFA: {}", staged, reason),
          "every message between GPUs of different hosts goes over PCIe and the host's memory twice",
          "use a libfabric that was built with CUDA (the EFA installer's), and load nvidia_peermem or the open kernel "
          "modules; see gpu.peer_memory",
          {}};
}

Finding peer_memory(const HostFacts& facts) {
  const std::string id = "gpu.peer_memory";
  for (const char* module : {"nvidia_peermem", "efa_nv_peermem", "nv_peer_mem"})
    if (facts.files.exists(std::string("sys/module/") + module)) return fine(id, std::string(module) + " is loaded");
  const std::string driver = facts.files.line("proc/driver/nvidia/version").value_or("");
  if (driver.empty())
    return {id,
            Severity::warning,
            "the GPUs have no NVIDIA driver (/proc/driver/nvidia)",
            "they cannot be used here",
            container_kind(facts).empty() ? "install the driver; nvidia-smi should list them"
                                          : "start the container with --gpus all (nvidia container toolkit)",
            {}};
  if (driver.find("Open Kernel Module") != std::string::npos)
    return fine(id, "open kernel modules: cards reach GPU memory through dmabuf");
  return {id,
          Severity::warning,
          "neither nvidia_peermem nor the open kernel modules (dmabuf) are loaded",
          "RDMA cards cannot reach GPU memory: every message goes through host memory",
          "modprobe nvidia_peermem, or install the open flavour of the driver",
          {}};
}

Finding gdrcopy(const HostFacts& facts) {
  if (facts.files.exists("dev/gdrdrv")) return fine("gpu.gdrcopy", "GDRCopy is there");
  return note("gpu.gdrcopy", "no GDRCopy (/dev/gdrdrv): small messages of EFA from GPU memory take longer");
}

Finding iommu(const HostFacts& facts) {
  const std::string id = "gpu.iommu";
  if (facts.files.list("sys/class/iommu").empty()) return fine(id, "no IOMMU between cards and GPUs");
  const std::string command_line = facts.files.line("proc/cmdline").value_or("");
  if (command_line.find("iommu=pt") != std::string::npos ||
      command_line.find("iommu.passthrough=1") != std::string::npos)
    return fine(id, "IOMMU in passthrough mode");
  return {id,
          Severity::warning,
          "the IOMMU translates (no iommu=pt on the kernel's command line)",
          "traffic between a card and a GPU may be sent up to the processor and down again, or fail",
          "boot with iommu=pt, or switch the IOMMU off in the BIOS",
          {}};
}

// Access Control Services of a bridge: the extended capability 0x000d. Only root may read beyond byte 64.
enum class Redirect { no, yes, unreadable };
Redirect redirects(const HostFacts& facts, const PciAddress& bridge) {
  const auto config = facts.files.text("sys/bus/pci/devices/" + text(bridge) + "/config");
  if (!config || config->size() < 0x108) return Redirect::unreadable;
  const auto byte = [&](std::size_t at) { return static_cast<unsigned>(static_cast<unsigned char>((*config)[at])); };
  std::size_t at = 0x100;
  for (int step = 0; step < 64 && at >= 0x100 && at + 8 <= config->size(); ++step) {
    const unsigned id = byte(at) | byte(at + 1) << 8;
    // Request and completion redirect: what peers say to each other goes up to the root first.
    if (id == 0x000d) return (byte(at + 6) & 0x0c) != 0 ? Redirect::yes : Redirect::no;
    at = (byte(at + 2) | byte(at + 3) << 8) >> 4;
  }
  return Redirect::no;
}

Finding acs(const HostFacts& facts, const Topology& topology) {
  const std::string id = "gpu.acs";
  std::vector<std::string> on;
  bool unreadable = false, some = false;
  for (const Bridge& bridge : topology.bridges) {
    if (!bridge.pci) continue;
    some = true;
    const Redirect answer = redirects(facts, *bridge.pci);
    unreadable = unreadable || answer == Redirect::unreadable;
    if (answer == Redirect::yes) on.push_back(text(*bridge.pci));
  }
  if (!on.empty())
    return {id,
            Severity::warning,
            fmt::format("ACS redirects traffic at {} PCI bridge{}: {}", on.size(), on.size() == 1 ? "" : "s",
                        fmt::join(on, ", ")),
            "what a card sends to a GPU below the same switch goes up to the processor and back: half the bandwidth, "
            "or a hang",
            fmt::format("setpci -s {} ECAP_ACS+0x6.w=0000 (for each), or switch ACS off in the BIOS", on.front()),
            {}};
  if (unreadable || !some)
    return unchecked(id, "ACS of the PCI bridges: only root may read it", "run as root once: sudo fabring doctor host");
  return fine(id, "ACS does not redirect");
}

std::optional<Finding> far_cards(const Topology& topology) {
  std::vector<std::size_t> far;
  for (std::size_t gpu = 0; gpu < topology.gpus.size(); ++gpu) {
    const auto rails = rails_for_gpu(topology, gpu);
    if (!rails.empty() &&
        proximity(topology, topology.gpus[gpu].place, topology.nics[rails[0]].place) == Proximity::remote)
      far.push_back(gpu);
  }
  if (far.empty()) return std::nullopt;
  return Finding{"gpu.nic",
                 Severity::warning,
                 fmt::format("GPU {}: the nearest network card is on the other package", fmt::join(far, ", ")),
                 "their traffic crosses between the packages",
                 "fabring topo shows the machine; move a card, or use the GPUs near one",
                 {}};
}

}  // namespace

Findings check_gpus(const HostFacts& facts) {
  const Topology* topology = known_topology(facts);
  if (topology == nullptr) return {};
  if (topology->gpus.empty()) return {note("gpu.none", "no GPU in this host; nothing to check about GPU memory")};
  Findings found;
  if (const auto finding = others(*topology)) found.push_back(*finding);
  if (std::none_of(topology->gpus.begin(), topology->gpus.end(), is_nvidia)) return found;
  found.push_back(memory_path(facts, *topology));
  found.push_back(peer_memory(facts));
  found.push_back(gdrcopy(facts));
  found.push_back(iommu(facts));
  found.push_back(acs(facts, *topology));
  if (const auto finding = far_cards(*topology)) found.push_back(*finding);
  return found;
}

}  // namespace fabring::tools

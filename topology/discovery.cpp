#include "topology/discovery.hpp"

#include <hwloc.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <memory>
#include <tuple>

#include "topology/card_facts.hpp"
#include "topology/process_facts.hpp"
#include "topology/trial.hpp"

namespace fabring {
namespace {

namespace fs = std::filesystem;
constexpr std::uintmax_t most_xml_bytes = 64u << 20;
constexpr std::size_t most_devices = 4096;
constexpr unsigned short nvidia = 0x10de, amd_graphics = 0x1002, amd_processors = 0x1022;  // vendors, by PCI

struct Destroy {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using Handle = std::unique_ptr<hwloc_topology, Destroy>;
using PciAttributes = hwloc_obj_attr_u::hwloc_pcidev_attr_s;

// Names of attributes of ours in a recorded machine.
constexpr const char *state_key = "FabringState", *speed_key = "FabringMegabits", *mtu_key = "FabringMtuBytes",
                     *kind_key = "FabringKind", *driver_key = "FabringDriver", *link_key = "FabringLink",
                     *quota_key = "FabringCpuQuota", *interface_type = "FabringInterface";

Status not_a_machine(const std::string& file) {
  return {
      ErrorCode::invalid_argument,
      file +
          ": hwloc cannot read this as a recorded machine; write one with `lstopo FILE.xml` or `fabring topo --save "
          "FILE.xml` (XML version 2)"};
}

Result<Handle> open_hwloc(const std::string& xml) {
  const auto failed = [&](const char* what) {
    if (!xml.empty()) return not_a_machine(xml);
    return Status(ErrorCode::unavailable, std::string("hwloc cannot ") + what + " this host: " + std::strerror(errno));
  };
  hwloc_topology* raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return failed("describe");
  Handle handle(raw);
  // PCI classes tell what a GPU is; the vendors' libraries would open devices, and take seconds. The plug-in for PCI
  // leaks, and is not always installed; without it hwloc reads the tree from /sys.
  for (const char* component : {"cuda", "nvml", "rsmi", "opencl", "levelzero", "gl", "pci"})
    hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_MISC, HWLOC_TYPE_FILTER_KEEP_ALL);
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  if (!xml.empty() && hwloc_topology_set_xml(raw, xml.c_str()) != 0) return failed("open");
  if (hwloc_topology_load(raw) != 0) return failed("describe");
  return handle;
}

std::vector<int> numbers(hwloc_const_bitmap_t set) {
  std::vector<int> found;
  if (set == nullptr || hwloc_bitmap_weight(set) < 0) return found;
  for (int at = hwloc_bitmap_first(set); at >= 0; at = hwloc_bitmap_next(set, at)) found.push_back(at);
  return found;
}

std::string info(hwloc_obj_t object, const char* key) {
  const char* value = object == nullptr ? nullptr : hwloc_obj_get_info_by_name(object, key);
  return value == nullptr ? "" : std::string(value).substr(0, 256);
}

template <class Number>
Number number_of(const std::string& text, Number most) {
  Number value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && value >= 0 && value <= most ? value : Number{0};
}

/// Copies the tree of one hwloc topology into a Topology.
class Copy {
 public:
  explicit Copy(hwloc_topology_t from) : from_(from) {}

  Topology make() && {
    processors();
    devices();
    interfaces_without_device();
    const auto order = [](const Nic& a, const Nic& b) {
      return std::make_tuple(!a.pci, a.pci.value_or(PciAddress{}), a.label()) <
             std::make_tuple(!b.pci, b.pci.value_or(PciAddress{}), b.label());
    };
    std::sort(to_.nics.begin(), to_.nics.end(), order);
    std::sort(to_.gpus.begin(), to_.gpus.end(), [](const Gpu& a, const Gpu& b) { return a.pci < b.pci; });
    return std::move(to_);
  }

 private:
  template <class Visit>
  void each(hwloc_obj_type_t type, Visit visit) {
    for (hwloc_obj_t at = nullptr; (at = hwloc_get_next_obj_by_type(from_, type, at)) != nullptr;) visit(at);
  }

  void processors() {
    hwloc_obj_t root = hwloc_get_root_obj(from_);
    to_.host = info(root, "HostName");
    to_.cpu_quota = number_of<double>(info(root, quota_key), 1e6);
    if (*to_.cpu_quota <= 0) to_.cpu_quota.reset();
    to_.memory_bytes = root->total_memory;
    to_.cores = std::max(hwloc_get_nbobjs_by_type(from_, HWLOC_OBJ_CORE), 0);
    to_.cpus = numbers(hwloc_topology_get_topology_cpuset(from_));
    to_.allowed_cpus = numbers(hwloc_topology_get_allowed_cpuset(from_));
    each(HWLOC_OBJ_PACKAGE, [&](hwloc_obj_t at) {
      to_.packages.push_back({static_cast<int>(to_.packages.size()), info(at, "CPUModel"), numbers(at->cpuset)});
    });
    std::vector<hwloc_obj_t> nodes;
    each(HWLOC_OBJ_NUMANODE, [&](hwloc_obj_t at) {
      NumaNode node;
      node.number = static_cast<int>(at->os_index);
      node.memory_bytes = at->attr->numanode.local_memory;
      node.cpus = numbers(at->cpuset);
      node.package = package_of(node.cpus);
      nodes.push_back(at);
      to_.numa.push_back(std::move(node));
    });
    for (const hwloc_obj_type_t type : {HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L4CACHE})
      each(type, [&](hwloc_obj_t at) {
        to_.caches.push_back({static_cast<int>(at->attr->cache.depth), at->attr->cache.size, numbers(at->cpuset)});
      });
    distances(nodes);
    std::sort(to_.numa.begin(), to_.numa.end(), [](const auto& a, const auto& b) { return a.number < b.number; });
  }

  void distances(const std::vector<hwloc_obj_t>& nodes) {
    hwloc_distances_s* found = nullptr;
    unsigned count = 1;
    if (hwloc_distances_get_by_type(from_, HWLOC_OBJ_NUMANODE, &count, &found, HWLOC_DISTANCES_KIND_MEANS_LATENCY, 0) !=
            0 ||
        count == 0)
      return;
    std::vector<unsigned> order(found->nbobjs);
    for (unsigned i = 0; i < found->nbobjs; ++i) order[i] = i;
    std::sort(order.begin(), order.end(),
              [&](unsigned a, unsigned b) { return found->objs[a]->os_index < found->objs[b]->os_index; });
    if (found->nbobjs == nodes.size())
      for (const unsigned i : order) {
        to_.numa_distances.emplace_back();
        for (const unsigned j : order) to_.numa_distances.back().push_back(found->values[i * found->nbobjs + j]);
      }
    hwloc_distances_release(from_, found);
  }

  int package_of(const std::vector<int>& cpus) const {
    if (cpus.empty()) return -1;
    for (const Package& package : to_.packages)
      if (std::includes(package.cpus.begin(), package.cpus.end(), cpus.begin(), cpus.end())) return package.number;
    return -1;
  }

  Place place_of(hwloc_obj_t device) {
    Place place;
    for (hwloc_obj_t at = device->parent; at != nullptr; at = at->parent)
      if (at->type == HWLOC_OBJ_BRIDGE) place.bridges.insert(place.bridges.begin(), bridge_of(at));
    hwloc_obj_t local = hwloc_get_non_io_ancestor_obj(from_, device);
    if (local == nullptr) return place;
    place.cpus = numbers(local->cpuset);
    place.package = package_of(place.cpus);
    if (local->nodeset != nullptr && hwloc_bitmap_weight(local->nodeset) == 1)
      place.numa = hwloc_bitmap_first(local->nodeset);
    return place;
  }

  int bridge_of(hwloc_obj_t object) {
    if (const auto known = bridges_.find(object); known != bridges_.end()) return known->second;
    Bridge bridge;
    bridge.host = object->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST;
    if (!bridge.host) bridge.pci = address_of(object->attr->bridge.upstream.pci);
    if (object->parent != nullptr && object->parent->type == HWLOC_OBJ_BRIDGE)
      bridge.parent = bridge_of(object->parent);
    to_.bridges.push_back(bridge);
    return bridges_[object] = static_cast<int>(to_.bridges.size()) - 1;
  }

  static PciAddress address_of(const PciAttributes& pci) {
    return {pci.domain, pci.bus, pci.dev, static_cast<std::uint8_t>(pci.func)};
  }

  void devices() {
    std::size_t seen = 0;
    for (hwloc_obj_t at = nullptr; (at = hwloc_get_next_pcidev(from_, at)) != nullptr && seen < most_devices; ++seen) {
      const PciAttributes& pci = at->attr->pcidev;
      const bool network = pci.class_id >> 8 == 0x02;
      // 3D controllers and accelerators; a display only from those who make GPUs that compute.
      const bool gpu =
          pci.class_id == 0x0302 || pci.class_id == 0x1200 ||
          (pci.class_id == 0x0300 && (pci.vendor_id == nvidia || (pci.vendor_id == amd_graphics && on_a_card(at))));
      if (gpu) add_gpu(at, pci);
      if (network) add_nics(at, pci);
    }
  }

  // The display of an AMD processor is behind a bridge of that processor, or on the bus of its root. A graphics card
  // has a bridge of its own, or is behind that of another processor's port.
  static bool on_a_card(hwloc_obj_t display) {
    const hwloc_obj_t bridge = display->parent;
    return bridge != nullptr && bridge->type == HWLOC_OBJ_BRIDGE &&
           bridge->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI &&
           bridge->attr->bridge.upstream.pci.vendor_id != amd_processors;
  }

  void add_gpu(hwloc_obj_t at, const PciAttributes& pci) {
    to_.gpus.push_back({address_of(pci), pci.vendor_id, pci.device_id, info(at, "PCIDevice"), place_of(at),
                        parse_recorded_link(info(at, link_key))});
  }

  // One for each interface of a function; its RDMA device belongs to the first.
  void add_nics(hwloc_obj_t at, const PciAttributes& pci) {
    Nic nic;
    nic.pci = address_of(pci);
    nic.vendor_id = pci.vendor_id;
    nic.device_id = pci.device_id;
    nic.model = info(at, "PCIDevice");
    nic.driver = info(at, driver_key);
    nic.place = place_of(at);
    nic.link = parse_recorded_link(info(at, link_key));
    if (pci.vendor_id == 0x1d0f && (pci.device_id & 0xfff0) == 0xefa0) nic.kind = NicKind::efa;
    if (pci.class_id == 0x0207) nic.kind = NicKind::infiniband;
    port_facts(at, nic);
    std::vector<hwloc_obj_t> interfaces;
    for (hwloc_obj_t os = at->io_first_child; os != nullptr; os = os->next_sibling) {
      if (os->type != HWLOC_OBJ_OS_DEVICE || os->name == nullptr) continue;
      if (os->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS) {
        nic.rdma = os->name;
        port_facts(os, nic);
      }
      if (os->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK) interfaces.push_back(os);
    }
    if (interfaces.empty()) to_.nics.push_back(nic);
    for (hwloc_obj_t os : interfaces) {
      Nic port = nic;
      port.interface = os->name;
      port_facts(os, port);
      to_.nics.push_back(port);
      nic.rdma.clear();
    }
  }

  // What record_topology wrote, or hwloc itself.
  static void port_facts(hwloc_obj_t object, Nic& nic) {
    if (const std::string state = info(object, state_key); !state.empty())
      nic.state = state == "up" ? LinkState::up : state == "down" ? LinkState::down : LinkState::unknown;
    else if (const std::string port = info(object, "Port1State"); !port.empty())
      nic.state = port == "4" ? LinkState::up : LinkState::down;
    if (const auto speed = number_of<std::uint32_t>(info(object, speed_key), 100'000'000)) nic.megabits = speed;
    if (const auto mtu = number_of<std::uint32_t>(info(object, mtu_key), 1u << 20)) nic.mtu_bytes = mtu;
    if (const std::string driver = info(object, driver_key); !driver.empty()) nic.driver = driver;
    if (info(object, kind_key) == name(NicKind::virtual_interface)) nic.kind = NicKind::virtual_interface;
  }

  void interfaces_without_device() {
    for (hwloc_obj_t os = nullptr; (os = hwloc_get_next_osdev(from_, os)) != nullptr;) {
      if (os->attr->osdev.type != HWLOC_OBJ_OSDEV_NETWORK || os->name == nullptr) continue;
      if (os->parent != nullptr && os->parent->type == HWLOC_OBJ_PCI_DEVICE) continue;
      add_interface(os);
    }
    for (hwloc_obj_t at = nullptr; (at = hwloc_get_next_obj_by_type(from_, HWLOC_OBJ_MISC, at)) != nullptr;)
      if (at->name != nullptr && info(at, "Type") == interface_type) add_interface(at);
  }

  void add_interface(hwloc_obj_t at) {
    if (to_.nics.size() >= most_devices || std::string_view(at->name) == "lo") return;
    Nic nic;
    nic.interface = at->name;
    port_facts(at, nic);
    to_.nics.push_back(std::move(nic));
  }

  hwloc_topology_t from_;
  Topology to_;
  std::map<hwloc_obj_t, int> bridges_;
};

void annotate(hwloc_obj_t object, const Nic& nic) {
  hwloc_obj_add_info(object, state_key, std::string(name(nic.state)).c_str());
  if (nic.megabits > 0) hwloc_obj_add_info(object, speed_key, std::to_string(nic.megabits).c_str());
  if (nic.mtu_bytes > 0) hwloc_obj_add_info(object, mtu_key, std::to_string(nic.mtu_bytes).c_str());
  if (!nic.driver.empty()) hwloc_obj_add_info(object, driver_key, nic.driver.c_str());
  if (nic.kind == NicKind::virtual_interface) hwloc_obj_add_info(object, kind_key, std::string(name(nic.kind)).c_str());
}

void annotate_link(hwloc_topology_t handle, const PciAddress& at, const PciLink& link) {
  hwloc_obj_t object = hwloc_get_pcidev_by_busid(handle, at.domain, at.bus, at.device, at.function);
  if (object == nullptr || !link.known()) return;
  hwloc_obj_add_info(object, link_key, recorded_link(link).c_str());
}

// The OS device of this name, else the PCI device of this address.
hwloc_obj_t object_of(hwloc_topology_t handle, const Nic& nic) {
  for (hwloc_obj_t os = nullptr; (os = hwloc_get_next_osdev(handle, os)) != nullptr;)
    if (os->name != nullptr && (nic.interface.empty() ? nic.rdma : nic.interface) == os->name) return os;
  if (!nic.pci) return nullptr;
  return hwloc_get_pcidev_by_busid(handle, nic.pci->domain, nic.pci->bus, nic.pci->device, nic.pci->function);
}

}  // namespace

Result<Topology> discover_topology(const std::filesystem::path& root) {
  auto handle = open_hwloc({});
  if (!handle) return handle.error();
  Topology topology = Copy(handle->get()).make();
  add_process_facts(topology, root);
  add_card_facts(topology, root);
  return topology;
}

Result<Topology> read_topology(const std::filesystem::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error))
    return Status(ErrorCode::unavailable,
                  file.string() + ": " + (error ? error.message() : std::string("not a regular file")));
  const auto bytes = fs::file_size(file, error);
  if (error || bytes > most_xml_bytes)
    return Status(ErrorCode::invalid_argument, file.string() + ": larger than 64 MiB; no recorded machine is");
  if (::access(file.c_str(), R_OK) != 0)
    return Status(ErrorCode::unavailable, file.string() + ": " + std::strerror(errno));
  const auto load = [&] {
    auto handle = open_hwloc(file.string());
    return handle ? Result<Topology>(Copy(handle->get()).make()) : Result<Topology>(handle.error());
  };
  // Only what passed is loaded here: of what it refuses hwloc keeps some memory.
  const auto trial = try_in_child([&] { return load().has_value(); });
  if (!trial) return Status(trial.error().code(), file.string() + ": " + trial.error().message());
  if (*trial != Trial::passed) return not_a_machine(file.string());
  auto topology = load();
  if (!topology) return topology.error();
  topology->recorded = true;
  return topology;
}

Status record_topology(const std::filesystem::path& file, const std::filesystem::path& root) {
  auto handle = open_hwloc({});
  if (!handle) return handle.error();
  Topology topology = Copy(handle->get()).make();
  add_process_facts(topology, root);
  add_card_facts(topology, root);
  for (const Gpu& gpu : topology.gpus) annotate_link(handle->get(), gpu.pci, gpu.link);
  for (const Nic& nic : topology.nics) {
    hwloc_obj_t object = object_of(handle->get(), nic);
    if (object == nullptr) {
      object =
          hwloc_topology_insert_misc_object(handle->get(), hwloc_get_root_obj(handle->get()), nic.interface.c_str());
      if (object == nullptr) continue;
      hwloc_obj_add_info(object, "Type", interface_type);
    }
    annotate(object, nic);
    if (nic.pci) annotate_link(handle->get(), *nic.pci, nic.link);
  }
  if (topology.cpu_quota)
    hwloc_obj_add_info(hwloc_get_root_obj(handle->get()), quota_key, std::to_string(*topology.cpu_quota).c_str());
  if (hwloc_topology_export_xml(handle->get(), file.c_str(), 0) != 0)
    return {ErrorCode::unavailable, file.string() + ": cannot write: " + std::strerror(errno)};
  return {};
}

}  // namespace fabring

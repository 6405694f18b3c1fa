#include "tests/tools/fabring/doctor/made_up_host.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <fstream>

#include "tools/fabring/doctor/host_checks.hpp"

namespace fabring::tests {
namespace {

Nic card(const std::string& interface, int node) {
  Nic nic;
  nic.interface = interface;
  nic.pci = PciAddress{0, static_cast<std::uint8_t>(0x10 * (node + 1)), 0, 0};
  nic.place.numa = nic.place.package = node;
  nic.place.bridges = {node};
  nic.link = {16, 16, 16, 16};
  nic.megabits = 100'000;
  nic.mtu_bytes = 9000;
  nic.state = LinkState::up;
  return nic;
}

}  // namespace

MadeUpHost::MadeUpHost() {
  static std::atomic<int> count{0};
  root_ = std::filesystem::path(testing::TempDir()) /
          ("host-" + std::to_string(::getpid()) + "-" + std::to_string(count.fetch_add(1)));
  facts.files = HostFiles(root_);
  limits_ = {{{"Max processes", "127000", "127000"}},
             {{"Max open files", "65536", "1048576"}},
             {{"Max locked memory", "unlimited", "unlimited"}},
             {{"Max address space", "unlimited", "unlimited"}},
             {{"Max file size", "unlimited", "unlimited"}}};
  write_limits();
  write("proc/self/cgroup", "0::/\n");
  write("proc/1/status", "Name:\tinit\nNSpid:\t1\n");
  link("proc/self/ns/pid", "pid:[4026531836]");
  write("proc/meminfo", "MemTotal: 131072000 kB\nMemAvailable: 120000000 kB\nHugePages_Total: 0\nHugePages_Free: 0\n");
  write("proc/sys/kernel/osrelease", "6.1.0-21-amd64\n");
  write("proc/net/route",
        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
        "eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n");
  write("proc/net/tcp", "  sl  local_address rem_address   st tx_queue\n   0: 00000000:0016 00000000:0000 0A 0\n");
  write("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n");
  write("proc/sys/net/ipv4/tcp_congestion_control", "cubic\n");
  write("proc/sys/net/ipv4/tcp_available_congestion_control", "reno cubic\n");
  write("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t16777216\n");
  write("proc/sys/net/ipv4/tcp_wmem", "4096\t131072\t16777216\n");
  write("proc/sys/net/core/somaxconn", "4096\n");
  write("proc/sys/net/ipv4/conf/all/rp_filter", "2\n");
  write("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
  for (const char* interface : {"eth0", "eth1"}) {
    const std::string folder = std::string("sys/class/net/") + interface;
    write(folder + "/statistics/rx_packets", "1000000000\n");
    write(folder + "/statistics/rx_errors", "0\n");
    write(folder + "/carrier_changes", "2\n");
  }
  std::filesystem::create_directories(root_ / "dev/shm");

  Topology topology;
  topology.host = "made-up";
  for (int node = 0; node < 2; ++node) {
    std::vector<int> cpus;
    for (int cpu = 0; cpu < 8; ++cpu) cpus.push_back(node * 8 + cpu);
    topology.cpus.insert(topology.cpus.end(), cpus.begin(), cpus.end());
    topology.packages.push_back({node, "Example 9000", cpus});
    topology.numa.push_back({node, node, 64ull << 30, cpus});
    topology.bridges.push_back({-1, true, {}});
    topology.nics.push_back(card("eth" + std::to_string(node), node));
  }
  topology.cores = 16;
  topology.allowed_cpus = topology.cpus;
  facts.topology = Result<Topology>(topology);
  facts.interfaces = std::vector<InterfaceAddress>{{"lo", "127.0.0.1", 8, false, true, true},
                                                   {"eth0", "10.0.0.5", 24, false, true, false},
                                                   {"eth1", "10.0.1.5", 24, false, true, false}};
  facts.towards_master = "10.0.0.5";
  facts.own_name = tools::NameFacts{"made-up", {"10.0.0.5"}, "", 0.001};
  facts.transports = std::vector<tools::TransportFacts>{
      {"fabric", true,
       "provider tcp 1.22, protocol XNET 0, libfabric 1.22, domain eth0, 10.0.0.5, not EFA: no EFA device found"},
      {"tcp", true, "10.0.0.5"}};
  facts.clock = tools::ClockFacts{true, 0.001};
  facts.shm = tools::Space{64ull << 30, 64ull << 30};
  facts.process_read = 0;
}

MadeUpHost::~MadeUpHost() {
  std::error_code error;
  std::filesystem::remove_all(root_, error);
}

void MadeUpHost::write(const std::string& file, const std::string& text) {
  std::filesystem::create_directories((root_ / file).parent_path());
  std::ofstream(root_ / file, std::ios::binary) << text;
}

void MadeUpHost::link(const std::string& file, const std::string& target) {
  std::filesystem::create_directories((root_ / file).parent_path());
  std::filesystem::remove(root_ / file);
  std::filesystem::create_symlink(target, root_ / file);
}

void MadeUpHost::remove(const std::string& file) { std::filesystem::remove_all(root_ / file); }

void MadeUpHost::limit(const std::string& name, const std::string& soft, const std::string& hard) {
  for (auto& row : limits_)
    if (row[0] == name) row = {name, soft, hard};
  write_limits();
}

void MadeUpHost::write_limits() {
  std::string table = "Limit                     Soft Limit           Hard Limit           Units\n";
  for (const auto& row : limits_) table += row[0] + "   " + row[1] + "   " + row[2] + "   units\n";
  write("proc/self/limits", table);
}

void MadeUpHost::add_efa() {
  Nic nic = card("", 0);
  nic.kind = NicKind::efa;
  nic.rdma = "rdmap16s27";
  nic.pci->bus = 0x18;
  topology().bridges.push_back({0, false, PciAddress{0, 0, 1, 0}});
  nic.place.bridges = {0, 2};
  topology().nics.push_back(nic);
  write("sys/class/infiniband/rdmap16s27/ports/1/state", "4: ACTIVE\n");
  write("dev/infiniband/uverbs0", "");
  (*facts.transports)[0].reason = "provider efa 1.22, protocol EFA 4, libfabric 1.22, domain rdmap16s27-rdm, 10.0.0.5";
}

void MadeUpHost::add_gpu() {
  Gpu gpu;
  gpu.pci = PciAddress{0, 0x19, 0, 0};
  gpu.vendor_id = 0x10de;
  gpu.place = topology().nics.back().place;
  gpu.link = {16, 16, 16, 16};
  topology().gpus.push_back(gpu);
  write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.1\n");
  write("dev/gdrdrv", "");
}

tools::Findings MadeUpHost::check() const { return tools::check_host(facts); }

RailChoice::Rail rail(const std::string& interface, std::uint32_t megabits, const std::string& address) {
  return {{interface, address, 24, false, true, false}, "10.0.0.0/24", megabits, true};
}

std::string bridge_with_acs(unsigned char control) {
  std::string config(4096, '\0');
  config[0x100] = 0x0d;  // the capability's number, then no further one
  config[0x106] = static_cast<char>(control);
  return config;
}

}  // namespace fabring::tests

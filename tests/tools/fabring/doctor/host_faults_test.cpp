// The catalogue of host faults: each does one harm to a healthy made-up host, and doctor must name it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <functional>

#include "tests/tools/fabring/doctor/made_up_host.hpp"

namespace fabring::tests {
namespace {

using testing::HasSubstr;
using tools::Finding;
using tools::Findings;
using tools::Severity;

struct Fault {
  const char* name;
  std::function<void(MadeUpHost&)> harm;
  const char* id;     ///< of the finding that must name it
  Severity severity;  ///< how bad it must be
  const char* what;   ///< what it must say
  const char* fix;    ///< what it must advise
};

const Fault faults[] = {
    {"locked memory of 64 KiB beside EFA",
     [](MadeUpHost& host) { host.add_efa(), host.limit("Max locked memory", "65536", "65536"); }, "limits.memlock",
     Severity::critical, "64 KiB", "LimitMEMLOCK"},
    {"locked memory of 64 KiB without EFA", [](MadeUpHost& host) { host.limit("Max locked memory", "65536", "65536"); },
     "limits.memlock", Severity::warning, "64 KiB", "ulimit -l"},
    {"few open files", [](MadeUpHost& host) { host.limit("Max open files", "200", "4096"); }, "limits.nofile",
     Severity::critical, "200 open files", "ulimit -n 4096"},
    {"few open files by the hard limit", [](MadeUpHost& host) { host.limit("Max open files", "1024", "1024"); },
     "limits.nofile", Severity::warning, "1024 open files", "LimitNOFILE"},
    {"few processes", [](MadeUpHost& host) { host.limit("Max processes", "100", "100"); }, "limits.nproc",
     Severity::critical, "100 processes", "LimitNPROC"},
    {"few threads in the container",
     [](MadeUpHost& host) {
       host.write(".dockerenv", "");
       host.write("sys/fs/cgroup/pids.max", "500\n");
     },
     "limits.pids", Severity::warning, "500 threads", "--pids-limit"},
    {"few threads in the group of the user's logins",
     [](MadeUpHost& host) {
       host.write("proc/self/cgroup", "7:pids:/user.slice/user-7.slice/session-1.scope\n");
       host.write("sys/fs/cgroup/pids/user.slice/user-7.slice/pids.max", "100\n");
       host.write("sys/fs/cgroup/pids/user.slice/user-7.slice/session-1.scope/pids.max", "max\n");
     },
     "limits.pids", Severity::critical, "user-7.slice allows 100 threads", "TasksMax"},
    {"a container's /dev/shm",
     [](MadeUpHost& host) {
       host.write(".dockerenv", "");
       host.facts.shm = tools::Space{64u << 20, 64u << 20};
     },
     "memory.shm", Severity::warning, "64 MiB", "--shm-size"},
    {"an address space of 2 GB", [](MadeUpHost& host) { host.limit("Max address space", "2147483648", "unlimited"); },
     "limits.address_space", Severity::warning, "2 GiB", "ulimit -v unlimited"},
    {"files of 1 MB at most", [](MadeUpHost& host) { host.limit("Max file size", "1048576", "unlimited"); },
     "limits.file_size", Severity::warning, "1 MiB", "ulimit -f unlimited"},
    {"a /dev/shm that may only be read",
     [](MadeUpHost& host) { host.facts.shm->unwritable = "it is mounted read-only"; }, "memory.shm", Severity::warning,
     "read-only", "remount,rw"},
    {"a full /dev/shm", [](MadeUpHost& host) { host.facts.shm->free_bytes = 1 << 20; }, "memory.shm", Severity::warning,
     "1 MiB of it free", "ls -lS"},
    {"what a killed job left in /dev/shm", [](MadeUpHost& host) { host.write("dev/shm/4711:0:1", "x"); },
     "memory.shm_leftovers", Severity::warning, "4711:0:1", "rm /dev/shm/"},
    {"huge pages used up",
     [](MadeUpHost& host) {
       host.write("proc/meminfo",
                  "MemTotal: 131072000 kB\nMemAvailable: 99999999 kB\nHugePages_Total: 512\nHugePages_Free: 0\n");
     },
     "memory.huge_pages", Severity::warning, "512 huge pages reserved, 0 free", "FI_EFA_USE_HUGE_PAGE=0"},
    {"memory of the container used up",
     [](MadeUpHost& host) {
       host.write("sys/fs/cgroup/memory.max", "4294967296\n");
       host.write("sys/fs/cgroup/memory.current", "4264967296\n");
     },
     "memory.free", Severity::warning, "control group", "ps aux"},
    {"memory of the batch system's step used up",
     [](MadeUpHost& host) {
       host.write("proc/self/cgroup", "0::/system.slice/slurmstepd.scope/job_7/step_0\n");
       host.write("sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/step_0/memory.max", "max\n");
       host.write("sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/memory.max", "4294967296\n");
       host.write("sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/memory.current", "4264967296\n");
     },
     "memory.free", Severity::warning, "job_7 allows", "srun --mem"},
    {"memory of a group of version one used up",
     [](MadeUpHost& host) {
       host.write("proc/self/cgroup", "9:cpu,cpuacct:/\n4:memory:/slurm/job_7\n0::/\n");
       host.write("sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes", "4294967296\n");
       host.write("sys/fs/cgroup/memory/slurm/job_7/memory.usage_in_bytes", "4290000000\n");
       host.write("sys/fs/cgroup/memory/slurm/job_7/memory.stat", "active_file 9\ntotal_active_file 4096\n");
       host.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
       host.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "4290000000\n");
     },
     "memory.free", Severity::warning, "/sys/fs/cgroup/memory/slurm/job_7", "ps aux"},
    {"processes that may read none but their children",
     [](MadeUpHost& host) {
       host.facts.process_read = EPERM;
       host.write("proc/sys/kernel/yama/ptrace_scope", "1\n");
     },
     "memory.read", Severity::info, "not permitted, as kernel.yama.ptrace_scope is 1", "ptrace_scope=0"},
    {"processes that may read none until the next boot",
     [](MadeUpHost& host) {
       host.facts.process_read = EPERM;
       host.write("proc/sys/kernel/yama/ptrace_scope", "3\n");
     },
     "memory.read", Severity::info, "ptrace_scope is 3", "at boot"},
    {"a container whose processes may not read each other",
     [](MadeUpHost& host) {
       host.write(".dockerenv", "");
       host.facts.process_read = ENOSYS;
       host.write("proc/sys/kernel/yama/ptrace_scope", "1\n");
     },
     "memory.read", Severity::info, "Function not implemented", "--cap-add=SYS_PTRACE"},
    {"a quota of processor time", [](MadeUpHost& host) { host.topology().cpu_quota = 2.5; }, "processors.quota",
     Severity::warning, "2.5 processors", "CPUQuota"},
    {"bound to one processor", [](MadeUpHost& host) { host.topology().allowed_cpus = {3}; }, "processors.binding",
     Severity::warning, "1 of 16", "taskset"},
    {"more ranks than processors", [](MadeUpHost& host) { host.facts.environment["LOCAL_WORLD_SIZE"] = "32"; },
     "processors.binding", Severity::warning, "32 ranks", "fewer ranks"},
    {"bound far from the only card",
     [](MadeUpHost& host) {
       host.topology().nics.pop_back();
       host.topology().allowed_cpus = {8, 9, 10, 11};
     },
     "processors.numa", Severity::warning, "eth0 on node 0", "numactl"},
    {"a card at half its width",
     [](MadeUpHost& host) {
       host.topology().nics[1].link = {16, 8, 16, 16};
     },
     "pci.link", Severity::warning, "50%", "riser"},
    {"a card at an old generation's speed",
     [](MadeUpHost& host) {
       host.topology().nics[1].link = {8, 16, 32, 16};
     },
     "pci.link", Severity::warning, "best 32 GT/s x16", "lspci"},
    {"an EFA card that is down",
     [](MadeUpHost& host) { host.add_efa(), host.topology().nics.back().state = LinkState::down; }, "nic.state",
     Severity::warning, "down", "ibstat rdmap16s27"},
    {"a port of 100 Mbit/s", [](MadeUpHost& host) { host.topology().nics[0].megabits = 100; }, "nic.speed",
     Severity::warning, "100 Mbit/s", "ethtool eth0"},
    {"one rail slower than the others",
     [](MadeUpHost& host) {
       host.add_efa();
       Nic slow = host.topology().nics.back();
       slow.rdma = "rdmap17s0";
       slow.megabits = 25'000;
       host.topology().nics.push_back(slow);
     },
     "nic.speed", Severity::warning, "the other cards of this kind have 100 Gbit/s", "ethtool"},
    {"one MTU smaller than that of the card beside it",
     [](MadeUpHost& host) {
       host.topology().nics[1].mtu_bytes = 1500;
       host.facts.rails.rails = {tests::rail("eth0"), tests::rail("eth1")};
     },
     "nic.mtu", Severity::warning, "MTU 1500, other cards that a job would use with it", "mtu 9000"},
    {"one MTU smaller than that of another card of the network",
     [](MadeUpHost& host) {
       host.topology().nics[1].mtu_bytes = 1500;
       host.facts.interfaces->back().address = "10.0.0.6";
     },
     "nic.mtu", Severity::warning, "have 9000", "mtu 9000"},
    {"packets with errors",
     [](MadeUpHost& host) { host.write("sys/class/net/eth0/statistics/rx_crc_errors", "5000000\n"); }, "nic.errors",
     Severity::warning, "rx_crc_errors 5000000", "ethtool -S eth0"},
    {"a link that comes and goes", [](MadeUpHost& host) { host.write("sys/class/net/eth1/carrier_changes", "400\n"); },
     "nic.flaps", Severity::warning, "400 times", "cable"},
    {"an interface that does not exist", [](MadeUpHost& host) { host.facts.environment["FABRING_INTERFACE"] = "eht0"; },
     "net.interface", Severity::critical, "no interface eht0; did you mean 'eth0'?", "FABRING_INTERFACE"},
    {"a mistyped interface beside a right one",
     [](MadeUpHost& host) { host.facts.environment["FABRING_INTERFACE"] = "eth0,eht1"; }, "net.interface",
     Severity::warning, "FABRING_INTERFACE=eth0,eht1: eht1: no such interface here", "FABRING_INTERFACE"},
    {"a mistyped interface that is not to be used",
     [](MadeUpHost& host) { host.facts.environment["FABRING_INTERFACE"] = "^dokcer0"; }, "net.interface",
     Severity::warning, "dokcer0: no such interface here", "FABRING_INTERFACE"},
    {"no interface but loopback",
     [](MadeUpHost& host) {
       host.facts.interfaces = std::vector<InterfaceAddress>{{"lo", "127.0.0.1", 8, false, true, true}};
       host.facts.towards_master.clear();
     },
     "net.interface", Severity::warning, "no network interface can be used", "FABRING_INTERFACE"},
    {"the wrong interface first",
     [](MadeUpHost& host) {
       host.facts.towards_master.clear();
       host.facts.interfaces->insert(host.facts.interfaces->begin(), {"mgmt0", "192.168.9.9", 24, false, true, false});
     },
     "net.route", Severity::warning, "default route goes out of eth0", "FABRING_INTERFACE=eth0"},
    {"loopback down", [](MadeUpHost& host) { host.facts.interfaces->front().up = false; }, "net.loopback",
     Severity::critical, "loopback", "ip link set lo up"},
    {"few ephemeral ports",
     [](MadeUpHost& host) { host.write("proc/sys/net/ipv4/ip_local_port_range", "60000 60500\n"); }, "net.port_range",
     Severity::warning, "60000 to 60500", "ip_local_port_range"},
    {"the master port among the ephemeral ones",
     [](MadeUpHost& host) { host.facts.environment["FABRING_MASTER_PORT"] = "40000"; }, "net.port_range",
     Severity::warning, "40000", "ip_local_reserved_ports=40000"},
    {"the master port among the ephemeral ones, beside others that are reserved",
     [](MadeUpHost& host) {
       host.facts.environment["FABRING_MASTER_PORT"] = "40000";
       host.write("proc/sys/net/ipv4/ip_local_reserved_ports", "8080,39000-39999\n");
     },
     "net.port_range", Severity::warning, "40000", "ip_local_reserved_ports=8080,39000-39999,40000"},
    {"the master port taken",
     [](MadeUpHost& host) {
       host.facts.environment["FABRING_MASTER_PORT"] = "29500";
       host.write("proc/net/tcp", "  sl  local rem st\n   0: 00000000:733C 00000000:0000 0A 0\n");
     },
     "net.master_port", Severity::warning, "29500", "ss -ltnp"},
    {"an old congestion control",
     [](MadeUpHost& host) { host.write("proc/sys/net/ipv4/tcp_congestion_control", "reno\n"); }, "net.congestion",
     Severity::warning, "reno", "cubic"},
    {"a congestion control that is not loaded",
     [](MadeUpHost& host) { host.facts.environment["FABRING_CONGESTION_CONTROL"] = "bbr"; }, "net.congestion",
     Severity::warning, "bbr is not loaded; there are: reno cubic", "modprobe tcp_bbr"},
    {"small socket buffers", [](MadeUpHost& host) { host.write("proc/sys/net/ipv4/tcp_wmem", "4096 16384 65536\n"); },
     "net.tcp_wmem", Severity::warning, "64 KiB", "sysctl"},
    {"a strict reverse path filter",
     [](MadeUpHost& host) { host.write("proc/sys/net/ipv4/conf/all/rp_filter", "1\n"); }, "net.rp_filter",
     Severity::warning, "rp_filter=1) on eth0, eth1", "rp_filter=2"},
    {"a strict reverse path filter of one interface",
     [](MadeUpHost& host) {
       host.write("proc/sys/net/ipv4/conf/all/rp_filter", "0\n");
       host.write("proc/sys/net/ipv4/conf/eth0/rp_filter", "0\n");
       host.write("proc/sys/net/ipv4/conf/eth1/rp_filter", "1\n");
     },
     "net.rp_filter", Severity::warning, "rp_filter=1) on eth1, and a job could use 2 interfaces", "rp_filter=2"},
    {"an own name that nobody knows",
     [](MadeUpHost& host) {
       host.facts.own_name = tools::NameFacts{"made-up", {}, "Name or service not known", 0.1};
     },
     "names.own", Severity::warning, "Name or service not known", "/etc/hosts"},
    {"an own name that is another host's", [](MadeUpHost& host) { host.facts.own_name->addresses = {"10.7.7.7"}; },
     "names.own", Severity::warning, "no address of this host", "/etc/hosts"},
    {"a name service that does not answer", [](MadeUpHost& host) { host.facts.own_name.reset(); }, "names.own",
     Severity::warning, "did not answer", "resolv.conf"},
    {"a master that nobody knows",
     [](MadeUpHost& host) {
       host.facts.master = "haed-node";
       host.facts.master_name = tools::NameFacts{"haed-node", {}, "Name or service not known", 0.1};
     },
     "names.master", Severity::warning, "haed-node", "its address"},
    {"a master that is no name",
     [](MadeUpHost& host) {
       host.facts.master = "head-node:29500";
       host.facts.master_name = tools::NameFacts{"head-node:29500", {}, "Name or service not known", 0.1};
     },
     "names.master", Severity::critical, "head-node:29500", "MASTER_PORT"},
    {"a loopback master for two hosts",
     [](MadeUpHost& host) {
       host.facts.master = "127.0.0.1";
       host.facts.environment["SLURM_NNODES"] = "2";
     },
     "names.master", Severity::critical, "loopback", "other hosts can reach"},
    {"EFA in the host, not in the container",
     [](MadeUpHost& host) {
       host.add_efa();
       host.write(".dockerenv", "");
       host.remove("dev/infiniband");
       (*host.facts.transports)[0].reason = "provider tcp 1.22, protocol XNET 0, not EFA: no EFA device found";
     },
     "fabric.efa", Severity::critical, "no /dev/infiniband", "vpc.amazonaws.com/efa"},
    {"EFA without its driver",
     [](MadeUpHost& host) {
       host.add_efa();
       host.remove("sys/class/infiniband");
       (*host.facts.transports)[0].reason = "provider tcp 1.22, protocol XNET 0, not EFA: no EFA device found";
     },
     "fabric.efa", Severity::critical, "efa driver", "modprobe efa"},
    {"an EFA card whose RDMA is off",
     [](MadeUpHost& host) {
       host.add_efa();
       (*host.facts.transports)[0].reason += ", RDMA off: built with libfabric 1.17, for which ...";
     },
     "fabric.efa_rdma", Severity::warning, "older than 1.18", "FI_EFA_USE_DEVICE_RDMA=1"},
    {"EFA on an old kernel that is told to let no rank fork",
     [](MadeUpHost& host) {
       host.add_efa();
       host.write("proc/sys/kernel/osrelease", "5.10.220-209.amzn2.x86_64\n");
       host.facts.environment["FI_EFA_FORK_SAFE"] = "off";
     },
     "fabric.fork", Severity::warning, "Linux 5.10, older than 5.13, with EFA and FI_EFA_FORK_SAFE", "unset it"},
    {"EFA on an old kernel with huge pages",
     [](MadeUpHost& host) {
       host.add_efa();
       host.write("proc/sys/kernel/osrelease", "4.14.0\n");
       host.facts.environment["FI_EFA_USE_HUGE_PAGE"] = "1";
     },
     "fabric.fork", Severity::warning, "with EFA and FI_EFA_USE_HUGE_PAGE", "unset it"},
    {"huge pages and forks asked of EFA at once",
     [](MadeUpHost& host) {
       host.add_efa();
       host.write("proc/sys/kernel/osrelease", "5.10.0\n");
       host.facts.environment["FI_EFA_USE_HUGE_PAGE"] = "1";
       host.facts.environment["RDMAV_FORK_SAFE"] = "1";
     },
     "fabric.fork", Severity::critical, "FI_EFA_USE_HUGE_PAGE and a FORK_SAFE variable", "unset"},
    {"huge pages asked of EFA",
     [](MadeUpHost& host) {
       host.add_efa();
       host.facts.environment["FI_EFA_USE_HUGE_PAGE"] = "1";
     },
     "fabric.fork", Severity::warning, "EFA takes huge pages", "unset"},
    {"EFA that a setting of the transport does without",
     [](MadeUpHost& host) {
       host.add_efa();
       host.facts.environment["FABRING_TRANSPORT"] = "tcp";
     },
     "fabric.efa", Severity::warning, "1 EFA card, which FABRING_TRANSPORT=tcp does without", "unset"},
    {"EFA behind another transport",
     [](MadeUpHost& host) {
       host.add_efa();
       host.facts.environment["FABRING_TRANSPORT"] = "shm,tcp,fabric";
     },
     "fabric.efa", Severity::warning, "which FABRING_TRANSPORT=shm,tcp,fabric does without", "unset"},
    {"EFA that a setting of the provider does without",
     [](MadeUpHost& host) {
       host.add_efa();
       host.facts.environment["FABRING_PROVIDER"] = "tcp";
       (*host.facts.transports)[0].reason = "provider tcp 1.22, protocol XNET 0";
     },
     "fabric.efa", Severity::warning, "which FABRING_PROVIDER=tcp does without", "unset"},
    {"fewer EFA cards than the instance has",
     [](MadeUpHost& host) {
       host.add_efa();
       host.write("sys/class/dmi/id/sys_vendor", "Amazon EC2\n");
       host.write("sys/class/dmi/id/product_name", "p5.48xlarge\n");
     },
     "fabric.efa_cards", Severity::warning, "1 of the 32 EFA cards", "type efa"},
    {"EFA asked for where there is none",
     [](MadeUpHost& host) {
       host.facts.environment["FABRING_PROVIDER"] = "efa";
       (*host.facts.transports)[0] = {"fabric", false, "no EFA device found"};
     },
     "fabric.transport", Severity::warning,
     "FABRING_PROVIDER=efa is asked for, but with other hosts a job would use tcp: 10.0.0.5 (not fabric: no EFA device",
     "vpc.amazonaws.com/efa"},
    {"a transport that cannot work",
     [](MadeUpHost& host) {
       host.facts.environment["FABRING_TRANSPORT"] = "fabric";
       (*host.facts.transports)[0] = {"fabric", false, "built without libfabric"};
     },
     "fabric.transport", Severity::critical, "built without libfabric", "FABRING_TRANSPORT"},
    {"GPU memory out of the cards' reach",
     [](MadeUpHost& host) {
       host.add_efa(), host.add_gpu();
       host.write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.1\n");
     },
     "gpu.peer_memory", Severity::warning, "nvidia_peermem", "modprobe nvidia_peermem"},
    {"an IOMMU that translates",
     [](MadeUpHost& host) {
       host.add_efa(), host.add_gpu();
       host.write("sys/class/iommu/dmar0/x", "");
       host.write("proc/cmdline", "ro quiet\n");
     },
     "gpu.iommu", Severity::warning, "IOMMU", "iommu=pt"},
    {"ACS between GPU and card",
     [](MadeUpHost& host) {
       host.add_efa(), host.add_gpu();
       host.write("sys/bus/pci/devices/0000:00:01.0/config", bridge_with_acs(0x1d));
     },
     "gpu.acs", Severity::warning, "0000:00:01.0", "setpci"},
    {"a container without IPC_LOCK",
     [](MadeUpHost& host) {
       host.add_efa();
       host.write("run/.containerenv", "");
       host.write("proc/self/status", "Name:\tx\nCapEff:\t00000000a80425fb\n");
     },
     "container.ipc_lock", Severity::warning, "IPC_LOCK", "--cap-add IPC_LOCK"},
    {"a container with IPC_LOCK in a user namespace",
     [](MadeUpHost& host) {
       host.add_efa();
       host.write("run/.containerenv", "");
       host.write("proc/self/status", "Name:\tx\nCapEff:\t00000000a80465fb\n");
       host.write("proc/self/uid_map", "0 100000 65536\n");
     },
     "container.ipc_lock", Severity::warning, "user namespace", "--userns=host"},
    {"a mistyped setting", [](MadeUpHost& host) { host.facts.environment["FABRING_TRANPORT"] = "tcp"; },
     "environment.fabring", Severity::critical, "did you mean 'FABRING_TRANSPORT'?", "fabring settings"},
    {"a bad value", [](MadeUpHost& host) { host.facts.environment["FABRING_TIMEOUT"] = "soon"; }, "environment.fabring",
     Severity::critical, "FABRING_TIMEOUT=soon", "fabring settings"},
    {"a value that ranks refuse",
     [](MadeUpHost& host) {
       host.facts.refused_values = std::vector<RefusedValue>{
           {"FABRING_SECRET_FILE", Status(ErrorCode::invalid_argument, "FABRING_SECRET_FILE 'k' is no regular file")}};
     },
     "environment.fabring", Severity::critical, "FABRING_SECRET_FILE 'k'", "fabring settings"},
    {"a mistyped variable of libfabric",
     [](MadeUpHost& host) { host.facts.environment["FI_EFA_USE_DEVICE_RMDA"] = "1"; }, "environment.libfabric",
     Severity::warning, "FI_EFA_USE_DEVICE_RDMA", "fi_info -e"},
    {"FI_PROVIDER that hides the rest", [](MadeUpHost& host) { host.facts.environment["FI_PROVIDER"] = "sockets"; },
     "environment.fi_provider", Severity::warning, "FI_PROVIDER=sockets", "unset"},
    {"a log level that floods", [](MadeUpHost& host) { host.facts.environment["FI_LOG_LEVEL"] = "error"; },
     "environment.fi_log_level", Severity::warning, "FI_LOG_LEVEL=error", "unset"},
    {"another library's interface", [](MadeUpHost& host) { host.facts.environment["NCCL_SOCKET_IFNAME"] = "eth1"; },
     "environment.nccl", Severity::warning, "no effect", "FABRING_INTERFACE=eth1"},
    {"launchers that disagree",
     [](MadeUpHost& host) {
       host.facts.environment.insert({{"RANK", "1"}, {"WORLD_SIZE", "2"}});
       host.facts.environment.insert({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}});
     },
     "environment.launcher", Severity::warning, "the rank: OMPI_COMM_WORLD_RANK=0, RANK=1", "unset"},
    {"a rank that srun passed on from the batch script",
     [](MadeUpHost& host) {
       host.facts.environment.insert(
           {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "0"}});
       host.facts.environment.insert({{"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "1"}});
     },
     "environment.launcher", Severity::warning, "the rank: SLURM_PROCID=1, RANK=0", "unset"},
    {"launchers of worlds that differ",
     [](MadeUpHost& host) {
       host.facts.environment.insert({{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"PMI_RANK", "0"}, {"PMI_SIZE", "2"}});
     },
     "environment.launcher", Severity::warning, "the number of ranks: PMI_SIZE=2, WORLD_SIZE=4", "unset"},
    {"a rank outside its world",
     [](MadeUpHost& host) {
       host.facts.environment["RANK"] = "8";
       host.facts.environment["WORLD_SIZE"] = "8";
     },
     "environment.rank", Severity::critical, "RANK=8", "0 to world size - 1"},
    {"a clock that nobody sets", [](MadeUpHost& host) { host.facts.clock->synchronised = false; }, "clock.sync",
     Severity::warning, "not synchronised", "chrony"},
    {"a clock that is slow to read",
     [](MadeUpHost& host) { host.write("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n"); },
     "clock.source", Severity::warning, "hpet", "tsc"},
};

std::string all_of(const Findings& findings) {
  std::string text;
  for (const Finding& finding : findings)
    if (finding.severity >= Severity::not_checked)
      text += std::string(name(finding.severity)) + " " + finding.id + ": " + finding.what + "\n";
  return text;
}

// Of cards that are there, and not used, what is wrong with them is the remedy.
TEST(DoctorHost, CardsThatAreAskedForAndNotUsedAreOneFault) {
  MadeUpHost host;
  host.add_efa();
  host.facts.environment["FABRING_PROVIDER"] = "efa";
  (*host.facts.transports)[0] = {"fabric", false, "no EFA device found"};
  int said = 0;
  for (const Finding& finding : host.check())
    if (finding.id.starts_with("fabric.") && finding.severity >= Severity::warning) {
      EXPECT_EQ(finding.id, "fabric.efa") << finding.what;
      ++said;
    }
  EXPECT_EQ(said, 1);
}

TEST(DoctorHost, NamesEveryFaultOfTheCatalogueWithWhatToDo) {
  for (const Fault& fault : faults) {
    SCOPED_TRACE(fault.name);
    MadeUpHost host;
    fault.harm(host);
    const Findings findings = host.check();
    // What is harmed must not make other things look ill.
    for (const Finding& finding : findings)
      EXPECT_TRUE(finding.severity != Severity::critical || finding.id == fault.id)
          << finding.id << ": " << finding.what;
    const auto named = std::find_if(findings.begin(), findings.end(), [&](const Finding& finding) {
      return finding.id == fault.id && finding.severity == fault.severity &&
             finding.what.find(fault.what) != std::string::npos;
    });
    if (named == findings.end()) {
      ADD_FAILURE() << "not named; found:\n" << all_of(findings);
      continue;
    }
    EXPECT_THAT(named->fix, HasSubstr(fault.fix));
    EXPECT_FALSE(named->why.empty());
  }
  EXPECT_GE(std::size(faults), 50u);
}

}  // namespace
}  // namespace fabring::tests

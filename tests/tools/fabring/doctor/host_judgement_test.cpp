// What doctor must not call a fault, and what it says of hosts that cannot be looked at fully.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/tools/fabring/doctor/made_up_host.hpp"
#include "tools/fabring/doctor/host_facts.hpp"
#include "tools/fabring/doctor/report.hpp"

namespace fabring::tests {
namespace {

using testing::HasSubstr;
using testing::Not;
using tools::Finding;
using tools::Findings;
using tools::Severity;

TEST(DoctorHost, AHealthyHostHasNothingToWarnOf) {
  MadeUpHost plain, fast;
  fast.add_efa();
  fast.add_gpu();
  fast.write("sys/bus/pci/devices/0000:00:01.0/config", bridge_with_acs(0));
  for (const MadeUpHost* host : {&plain, &fast})
    for (const Finding& finding : host->check())
      EXPECT_LT(finding.severity, Severity::warning) << finding.id << ": " << finding.what;
}

TEST(DoctorHost, AManagementNetworkMayHaveAnMtuOfItsOwn) {
  MadeUpHost host;
  host.topology().nics[1].mtu_bytes = 1500;  // its network is not that of eth0
  host.topology().nics[1].megabits = 1000;
  host.facts.rails.rails = {tests::rail("eth0")};
  for (const Finding& finding : host.check())
    EXPECT_LT(finding.severity, Severity::warning) << finding.id << ": " << finding.what << finding.fix;
}

TEST(DoctorHost, ACardWhoseSpeedNobodyKnowsIsSaidToBeOne) {
  const auto said = [](RailChoice cards) {
    MadeUpHost host;
    host.facts.rails = std::move(cards);
    std::string what;
    for (const Finding& finding : host.check())
      if (finding.id == "net.rails") what += finding.what;
    return what;
  };
  RailChoice cards{{tests::rail("eth0", 0)}, {}};
  EXPECT_EQ(said(cards), "") << "it is the only one";
  cards.rejected = {"eth1 10.0.1.5: 1000 Mbit/s, ..."};
  EXPECT_THAT(said(cards),
              testing::AllOf(HasSubstr("one network card: eth0; how fast eth0 is the kernel does not know"),
                             HasSubstr("not eth1 10.0.1.5: 1000 Mbit/s")));
  cards = {{tests::rail("eth0", 0), tests::rail("eth1", 0)}, {}};
  EXPECT_THAT(said(cards), HasSubstr("how fast eth0 is the kernel does not know: what each carries will show"));
  cards.rails[0].megabits = cards.rails[1].megabits = 1000;
  EXPECT_THAT(said(cards), testing::AllOf(HasSubstr("2 network cards at once: eth0, eth1 ("),
                                          testing::Not(HasSubstr("does not know"))));
}

TEST(DoctorHost, ACardWhosePacketsLeaveByAnotherIsNamedWithTheRemedy) {
  MadeUpHost host;
  host.facts.rails.rails = {tests::rail("eth0"), tests::rail("eth1", 100'000, "10.0.0.6")};
  host.facts.leaves_by = {{"eth1", "eth0"}};
  Findings found;
  for (Finding& finding : host.check())
    if (finding.id == "net.rails") found.push_back(std::move(finding));
  ASSERT_EQ(found.size(), 1u) << "and not that a rank would use both";
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_THAT(found[0].what, HasSubstr("packets from 10.0.0.6 to others of 10.0.0.0/24 leave by eth0"));
  EXPECT_THAT(found[0].fix,
              HasSubstr("ip route add 10.0.0.0/24 dev eth1 table 101; ip rule add from 10.0.0.6 table 101"));
}

TEST(DoctorHost, RoutesAreAskedForAnAddressOfTheNetworkThatIsAnotherHosts) {
  const auto neighbour = [](const char* address, int bits, std::vector<InterfaceAddress> own = {}) {
    const InterfaceAddress one{"eth0", address, bits, std::string_view(address).find(':') != std::string_view::npos,
                               true,   false};
    own.push_back(one);
    return tools::neighbour_of(one, own);
  };
  EXPECT_EQ(neighbour("10.0.0.5", 24), "10.0.0.4");
  EXPECT_EQ(neighbour("10.0.0.5", 24, {{"eth1", "10.0.0.4", 24, false, true, false}}), "10.0.0.7");
  EXPECT_EQ(neighbour("10.0.0.1", 24), "10.0.0.3") << "the first is the network's own";
  EXPECT_EQ(neighbour("10.0.0.254", 24), "10.0.0.252") << "the last is for all";
  EXPECT_EQ(neighbour("10.0.0.1", 30), "10.0.0.2");
  EXPECT_EQ(neighbour("10.0.0.1", 31), "10.0.0.0");
  EXPECT_EQ(neighbour("10.0.0.1", 32), "");
  EXPECT_EQ(neighbour("fd00::5", 64), "fd00::4");
  EXPECT_EQ(neighbour("nonsense", 24), "");
}

TEST(DoctorHost, TheWayOutIsNoLinkLocalAddressWhereNoMasterIsNamed) {
  using tools::address_by_default;
  EXPECT_EQ(address_by_default("10.0.0.5", "2600::5"), "10.0.0.5");
  EXPECT_EQ(address_by_default("", "2600::5"), "2600::5");
  EXPECT_EQ(address_by_default("169.254.172.2", "2600::5"), "2600::5");
  EXPECT_EQ(address_by_default("169.254.172.2", ""), "");
  EXPECT_EQ(address_by_default("169.254.172.2", "fe80::5"), "");
}

// A pod of an IPv6 cluster: IPv4 leaves by a NAT, from an address that no other pod can answer to.
TEST(DoctorHost, InAPodOfAnIpv6ClusterItsIpv6InterfaceIsNamed) {
  MadeUpHost host;
  host.facts.interfaces = std::vector<InterfaceAddress>{{"lo", "127.0.0.1", 8, false, true, true},
                                                        {"eth0", "2600:1f14::5", 128, true, true, false},
                                                        {"v4if0", "169.254.172.2", 22, false, true, false},
                                                        {"v4if0", "fe80::5", 64, true, true, false}};
  host.facts.towards_master = tools::address_by_default("169.254.172.2", "2600:1f14::5");
  host.write("proc/net/route",
             "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
             "v4if0\t00000000\t01ACFEA9\t0003\t0\t0\t0\t00000000\n");
  const Findings findings = host.check();
  for (const Finding& finding : findings) EXPECT_NE(finding.id, "net.route") << finding.what << finding.fix;
  const auto interface = std::find_if(findings.begin(), findings.end(),
                                      [](const Finding& finding) { return finding.id == "net.interface"; });
  ASSERT_NE(interface, findings.end());
  EXPECT_THAT(interface->what, HasSubstr("would use eth0 2600:1f14::5: on the default route"));
}

TEST(DoctorHost, TheLimitOnLockedMemoryDoesNotHoldWhoHasIpcLock) {
  const auto memlock = [](const std::string& capabilities, const std::string& users) {
    MadeUpHost host;
    host.add_efa();
    host.facts.environment["KUBERNETES_SERVICE_HOST"] = "10.96.0.1";
    host.limit("Max locked memory", "65536", "65536");
    host.write("proc/self/status", "Name:\tx\nCapEff:\t" + capabilities + "\n");
    host.write("proc/self/uid_map", users);
    const Findings findings = host.check();
    const auto found = std::find_if(findings.begin(), findings.end(),
                                    [](const Finding& finding) { return finding.id == "limits.memlock"; });
    return found == findings.end() ? Finding{} : *found;
  };
  const std::string everybody = "         0          0 4294967295\n", own = "         0     100000      65536\n";
  const std::string with = "00000000a80465fb", without = "00000000a80425fb";
  EXPECT_EQ(memlock(with, everybody).severity, Severity::info);
  const Finding held = memlock(without, everybody);
  EXPECT_EQ(held.severity, Severity::critical);
  EXPECT_THAT(held.fix, testing::StartsWith("securityContext.capabilities.add: [IPC_LOCK]"));
  const Finding own_namespace = memlock(with, own);
  EXPECT_EQ(own_namespace.severity, Severity::critical) << "the kernel asks in the first user namespace";
  EXPECT_THAT(own_namespace.fix, Not(HasSubstr("IPC_LOCK")));
}

// A prolog runs as root, under the limit that the ranks of users inherit.
TEST(DoctorHost, RootOnAHostHasIpcLockAndItsRanksHaveNot) {
  MadeUpHost host;
  host.add_efa();
  host.limit("Max locked memory", "65536", "65536");
  host.write("proc/self/status", "Name:\tx\nCapEff:\t000001ffffffffff\n");
  host.write("proc/self/uid_map", "         0          0 4294967295\n");
  const auto memlock = [&] {
    const Findings findings = host.check();
    const auto found = std::find_if(findings.begin(), findings.end(),
                                    [](const Finding& finding) { return finding.id == "limits.memlock"; });
    return found == findings.end() ? Finding{} : *found;
  };
  EXPECT_EQ(memlock().severity, Severity::critical);
  EXPECT_THAT(memlock().fix, HasSubstr("LimitMEMLOCK"));
  const Environment without = host.facts.environment;
  const std::vector<Environment> ranks{
      {{"FABRING_RANK", "0"}},
      {{"RANK", "0"}, {"WORLD_SIZE", "2"}},
      {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}},
      {{"PMI_RANK", "0"}},
      {{"PMI_ID", "0"}},
      {{"PMIX_RANK", "0"}},
      {{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "0"}},
      {{"JOB_COMPLETION_INDEX", "0"}},
      {{"SM_HOSTS", R"(["algo-1","algo-2"])"}, {"SM_CURRENT_HOST", "algo-1"}}};
  for (const Environment& rank : ranks) {
    host.facts.environment = without;
    host.facts.environment.insert(rank.begin(), rank.end());
    EXPECT_EQ(memlock().severity, Severity::info) << "a rank itself, by " << rank.begin()->first;
  }
  host.facts.environment = without;
  host.facts.environment.insert({{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}});
  EXPECT_EQ(memlock().severity, Severity::critical) << "a batch script is no rank";
}

// What one launcher numbers are hosts, pods or daemons where another starts the ranks.
TEST(DoctorHost, ALauncherInsideAnotherDoesNotDisagreeWithIt) {
  const Environment torchrun{{"RANK", "9"}, {"WORLD_SIZE", "16"}, {"LOCAL_RANK", "1"}};
  const Environment batch{{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}};
  const Environment step{
      {"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "1"}};
  const Environment pmix_step{{"SLURM_JOB_ID", "7"},
                              {"SLURM_STEP_ID", "0"},
                              {"PMIX_RANK", "1"},
                              {"SLURM_STEP_NUM_TASKS", "2"},
                              {"SLURM_PROCID", "1"}};
  const Environment pod{{"JOB_COMPLETION_INDEX", "1"}};
  const Environment sagemaker{{"SM_HOSTS", R"(["algo-1","algo-2"])"}, {"SM_CURRENT_HOST", "algo-2"}};
  for (const Environment& outer : {batch, step, pmix_step, pod, sagemaker}) {
    MadeUpHost host;
    host.facts.environment.insert(torchrun.begin(), torchrun.end());
    host.facts.environment.insert(outer.begin(), outer.end());
    for (const Finding& finding : host.check())
      EXPECT_NE(finding.id, "environment.launcher") << outer.begin()->first << ": " << finding.what;
  }
}

TEST(DoctorHost, ARankThatIsBoundHasItsProcessorsPerhapsForItself) {
  MadeUpHost host;
  host.topology().allowed_cpus = {0, 1, 2, 3};
  host.facts.environment["SLURM_NTASKS_PER_NODE"] = "8";
  const Findings findings = host.check();
  const auto found = std::find_if(findings.begin(), findings.end(),
                                  [](const Finding& finding) { return finding.id == "processors.binding"; });
  ASSERT_NE(found, findings.end());
  EXPECT_EQ(found->severity, Severity::info) << found->what;
  EXPECT_THAT(found->what, HasSubstr("4 of 16 processors may be used (0-3); 8 ranks are to run on this host"));
}

TEST(DoctorHost, AReservedMasterPortIsSafeAmongTheEphemeralOnes) {
  MadeUpHost host;
  host.facts.environment["FABRING_MASTER_PORT"] = "40000";
  host.write("proc/sys/net/ipv4/ip_local_reserved_ports", "8080,39990-40010\n");
  for (const Finding& finding : host.check())
    EXPECT_LT(finding.severity, Severity::warning) << finding.id << ": " << finding.what;
}

TEST(DoctorHost, FramesThatNobodyWantedAreNotLostPackets) {
  MadeUpHost host;
  host.write("sys/class/net/eth0/statistics/rx_dropped", "5000000\n");
  bool told = false;
  for (const Finding& finding : host.check()) {
    EXPECT_LT(finding.severity, Severity::warning) << finding.id << ": " << finding.what;
    told = told || (finding.id == "nic.errors" && finding.what.find("rx_dropped 5000000") != std::string::npos);
  }
  EXPECT_TRUE(told);
}

TEST(DoctorHost, FilesThatTheKernelKeepsDoNotUseMemoryUp) {
  MadeUpHost host;
  host.write("sys/fs/cgroup/memory.max", "4294967296\n");
  host.write("sys/fs/cgroup/memory.current", "4290000000\n");
  host.write("sys/fs/cgroup/memory.stat",
             "anon 1073741824\nfile 3000000000\ninactive_file 2000000000\nactive_file 1000000000\n");
  const Findings findings = host.check();
  const auto found = std::find_if(findings.begin(), findings.end(),
                                  [](const Finding& finding) { return finding.id == "memory.free"; });
  ASSERT_NE(found, findings.end());
  EXPECT_EQ(found->severity, Severity::ok) << found->what;
  EXPECT_THAT(found->what, HasSubstr("2.7 GiB of memory free of 4 GiB that the control group /sys/fs/cgroup allows"));
}

TEST(DoctorHost, SegmentsOfProcessesThatItCannotSeeAreNotCalledLeftOver) {
  const auto severity = [](const std::function<void(MadeUpHost&)>& change) {
    MadeUpHost host;
    host.write("dev/shm/4711:0:1", "x");
    change(host);
    const Findings findings = host.check();
    const auto found = std::find_if(findings.begin(), findings.end(),
                                    [](const Finding& finding) { return finding.id == "memory.shm_leftovers"; });
    return found == findings.end() ? Severity::not_checked : found->severity;
  };
  EXPECT_EQ(severity([](MadeUpHost&) {}), Severity::warning) << "dead";
  EXPECT_EQ(severity([](MadeUpHost& host) { host.write("proc/4711/status", "Name:\ta\nNSpid:\t4711\n"); }),
            Severity::ok);
  EXPECT_EQ(severity([](MadeUpHost& host) { host.write("proc/98123/status", "Name:\ta\nNSpid:\t98123\t4711\n"); }),
            Severity::ok)
      << "alive in a container";
  EXPECT_EQ(severity([](MadeUpHost& host) { host.write("proc/98123/status", "Name:\ta\nNSpid:\t4711\t5\n"); }),
            Severity::warning)
      << "that is not what it calls itself";
  EXPECT_EQ(severity([](MadeUpHost& host) { host.link("proc/self/ns/pid", "pid:[4026532199]"); }), Severity::info)
      << "it may be alive in a container beside this one";
  EXPECT_EQ(severity([](MadeUpHost& host) { host.remove("proc/1"); }), Severity::info) << "/proc hides processes";
}

TEST(DoctorHost, TheTransportIsTheFirstThatIsAskedFor) {
  MadeUpHost host;
  host.facts.environment["FABRING_TRANSPORT"] = "tcp,fabric";
  const Findings findings = host.check();
  const auto found = std::find_if(findings.begin(), findings.end(),
                                  [](const Finding& finding) { return finding.id == "fabric.transport"; });
  ASSERT_NE(found, findings.end());
  EXPECT_THAT(found->what, HasSubstr("a job would use tcp: 10.0.0.5"));
}

TEST(DoctorHost, ALooseReversePathFilterIsFineWhereEitherSays) {
  for (const auto& [all, own] : {std::pair{"1\n", "2\n"}, {"2\n", "1\n"}, {"0\n", "0\n"}}) {
    MadeUpHost host;
    host.write("proc/sys/net/ipv4/conf/all/rp_filter", all);
    for (const char* interface : {"eth0", "eth1"})
      host.write(std::string("proc/sys/net/ipv4/conf/") + interface + "/rp_filter", own);
    for (const Finding& finding : host.check()) EXPECT_NE(finding.id, "net.rp_filter") << finding.what;
  }
}

// As OpenStack and OpenShift set hosts up. What the default route leaves by leads to other hosts.
TEST(DoctorHost, ABridgeOfTheHostsOwnIsNotSaidToLeadNowhere) {
  MadeUpHost host;
  host.facts.interfaces->push_back({"br-ex", "10.0.9.5", 24, false, true, false});
  host.facts.towards_master.clear();
  host.write("proc/net/route",
             "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
             "br-ex\t00000000\t0109000A\t0003\t0\t0\t0\t00000000\n");
  std::string route;
  for (const Finding& finding : host.check()) {
    EXPECT_THAT(finding.what, testing::Not(HasSubstr("leads to no other host"))) << finding.id;
    if (finding.id == "net.route") route += finding.fix;
  }
  EXPECT_THAT(route, HasSubstr("FABRING_INTERFACE=br-ex"));
}

TEST(DoctorHost, AReversePathFilterMattersOnlyWhereAJobCouldRun) {
  const auto said = [](MadeUpHost& host) {
    std::string what;
    for (const Finding& finding : host.check())
      if (finding.id == "net.rp_filter") what += finding.what;
    return what;
  };
  MadeUpHost bridges;  // one card, and what a container system has made
  bridges.write("proc/sys/net/ipv4/conf/all/rp_filter", "1\n");
  bridges.facts.interfaces->pop_back();
  bridges.facts.interfaces->push_back({"docker0", "172.17.0.1", 16, false, true, false});
  bridges.facts.interfaces->push_back({"br-0a1b2c3d4e5f", "172.18.0.1", 16, false, true, false});
  EXPECT_EQ(said(bridges), "");
  bridges.facts.interfaces->push_back({"eth1", "10.0.1.5", 24, false, true, false});
  EXPECT_THAT(said(bridges), HasSubstr("on eth0, eth1, and a job could use 2 interfaces"));
  MadeUpHost one_allowed;
  one_allowed.write("proc/sys/net/ipv4/conf/all/rp_filter", "1\n");
  EXPECT_NE(said(one_allowed), "");
  one_allowed.facts.environment["FABRING_INTERFACE"] = "eth0";
  EXPECT_EQ(said(one_allowed), "");
}

TEST(DoctorHost, WhatCannotBeReadIsNotFine) {
  MadeUpHost host;
  for (const char* folder : {"proc", "sys"}) host.remove(folder);
  host.facts.topology = Result<Topology>(Status(ErrorCode::unavailable, "hwloc cannot read this host"));
  host.facts.transports.reset();
  host.facts.clock.reset();
  host.facts.interfaces = Status(ErrorCode::unavailable, "cannot list the network interfaces");
  const Findings findings = host.check();
  for (const char* id :
       {"limits.memlock", "limits.nofile", "memory.huge_pages", "memory.free", "processors.quota", "nic.state",
        "net.interface", "net.port_range", "net.congestion", "fabric.transport", "clock.sync", "net.firewall"}) {
    const auto found =
        std::find_if(findings.begin(), findings.end(), [&](const Finding& finding) { return finding.id == id; });
    ASSERT_NE(found, findings.end()) << id;
    EXPECT_EQ(found->severity, Severity::not_checked) << id << ": " << found->what;
  }
}

TEST(DoctorHost, TheWayOfGpuMemoryIsWhatLibfabricSaysOfIt) {
  const auto path = [](bool efa, std::optional<tools::DevicePathFacts> says) {
    MadeUpHost host;
    if (efa) host.add_efa();
    host.add_gpu();
    host.write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64");
    host.facts.device_path = std::move(says);
    const Findings findings = host.check();
    const auto found =
        std::find_if(findings.begin(), findings.end(), [](const Finding& finding) { return finding.id == "gpu.path"; });
    return found == findings.end() ? Finding{} : *found;
  };
  const Finding direct = path(true, tools::DevicePathFacts{true, "efa: FI_HMEM"});
  EXPECT_EQ(direct.severity, Severity::ok);
  EXPECT_NE(direct.what.find("the card reads and writes GPU memory"), std::string::npos) << direct.what;
  EXPECT_NE(direct.what.find("efa: FI_HMEM"), std::string::npos) << direct.what;
  const Finding lost = path(true, tools::DevicePathFacts{false, "efa cannot take GPU memory: no FI_HMEM"});
  EXPECT_EQ(lost.severity, Severity::warning);
  EXPECT_NE(lost.what.find("no FI_HMEM"), std::string::npos) << lost.what;
  EXPECT_NE(lost.fix.find("built with CUDA"), std::string::npos) << lost.fix;
  const Finding tcp = path(false, tools::DevicePathFacts{false, "net cannot take GPU memory: no FI_HMEM"});
  EXPECT_EQ(tcp.severity, Severity::ok) << "TCP never has it";
  EXPECT_NE(tcp.what.find("net cannot take GPU memory"), std::string::npos) << tcp.what;
  EXPECT_EQ(path(true, std::nullopt).severity, Severity::ok);
}

TEST(DoctorHost, GpusOfOtherMakersAreNotHeldToNvidiasDriver) {
  MadeUpHost host;
  host.add_efa();
  host.add_gpu();
  host.topology().gpus.back().vendor_id = 0x1002;
  host.remove("proc/driver");
  host.write("sys/class/iommu/dmar0/x", "");
  host.write("proc/cmdline", "ro quiet\n");
  std::string said;
  for (const Finding& finding : host.check()) {
    EXPECT_LT(finding.severity, Severity::warning) << finding.id << ": " << finding.what;
    if (finding.id.starts_with("gpu.")) said += finding.id + ": " + finding.what + "\n";
  }
  EXPECT_EQ(said, "gpu.vendor: 1 GPU of AMD: Fabring uses memory of NVIDIA GPUs only\n");
}

TEST(DoctorHost, AMasterThatKnowsItselfAsLoopbackIsNoFault) {
  MadeUpHost host;
  host.facts.own_name = tools::NameFacts{"made-up", {"127.0.1.1"}, "", 0.001};
  host.facts.master = "made-up.cluster";
  host.facts.master_name = tools::NameFacts{"made-up.cluster", {"127.0.1.1"}, "", 0.001};
  host.facts.environment["SLURM_NNODES"] = "2";
  const Findings findings = host.check();
  const auto severity = [&](const std::string& id) {
    const auto found =
        std::find_if(findings.begin(), findings.end(), [&](const Finding& finding) { return finding.id == id; });
    return found == findings.end() ? Severity::not_checked : found->severity;
  };
  EXPECT_EQ(severity("names.own"), Severity::info);
  EXPECT_EQ(severity("names.master"), Severity::info);
}

TEST(DoctorHost, AMasterWhoseNameIsNotKnownYetHoldsNoHostBack) {
  const auto judged = [](bool complete, std::optional<tools::NameFacts> answer) {
    MadeUpHost host;
    host.facts.master = "train-0.train";
    host.facts.master_name = std::move(answer);
    host.facts.complete = complete;
    const Findings findings = host.check();
    const auto found = std::find_if(findings.begin(), findings.end(),
                                    [](const Finding& finding) { return finding.id == "names.master"; });
    const tools::Report report{"host", "made-up", findings, 1, complete, {}};
    return std::pair(found == findings.end() ? Severity::ok : found->severity, tools::exit_code(report, false));
  };
  EXPECT_EQ(judged(false, std::nullopt), std::pair(Severity::not_checked, 3)) << "silent";
  EXPECT_EQ(judged(true, tools::NameFacts{"train-0.train", {}, "Name or service not known", 0.1}),
            std::pair(Severity::warning, 0))
      << "not published";
}

TEST(DoctorHost, AMistypedCongestionControlIsNotLookedForAmongModules) {
  MadeUpHost host;
  host.facts.environment["FABRING_CONGESTION_CONTROL"] = "cubix";
  host.facts.refused_values = std::vector<RefusedValue>{
      {"FABRING_CONGESTION_CONTROL", Status(ErrorCode::invalid_argument, "FABRING_CONGESTION_CONTROL='cubix': ...")}};
  int named = 0;
  for (const Finding& finding : host.check())
    if (finding.what.find("cubix") != std::string::npos) {
      EXPECT_EQ(finding.id, "environment.fabring");
      ++named;
    }
  EXPECT_EQ(named, 1);
}

TEST(DoctorHost, SettingsThatNobodyAnsweredForAreNotFine) {
  MadeUpHost host;
  host.facts.refused_values.reset();
  const Findings findings = host.check();
  const auto found = std::find_if(findings.begin(), findings.end(),
                                  [](const Finding& finding) { return finding.id == "environment.fabring"; });
  ASSERT_NE(found, findings.end());
  EXPECT_EQ(found->severity, Severity::not_checked) << found->what;
}

TEST(DoctorHost, AcsThatOnlyRootMayReadIsNotChecked) {
  MadeUpHost host;
  host.add_efa();
  host.add_gpu();
  host.write("sys/bus/pci/devices/0000:00:01.0/config", std::string(64, '\0'));
  const Findings findings = host.check();
  const auto found =
      std::find_if(findings.begin(), findings.end(), [](const Finding& finding) { return finding.id == "gpu.acs"; });
  ASSERT_NE(found, findings.end());
  EXPECT_EQ(found->severity, Severity::not_checked) << found->what;
}

TEST(DoctorHost, FilesFullOfNonsenseDoNoHarm) {
  for (const std::string& nonsense :
       {std::string("\xff\xfe\x00\x01", 4), std::string(300'000, '9'), std::string("-1 -1 -1 -1"),
        std::string("\n\n\n"), std::string(1000, ' '), std::string("::::::")}) {
    MadeUpHost host;
    host.add_efa();
    host.add_gpu();
    for (const char* file :
         {"proc/self/limits", "proc/meminfo", "proc/net/route", "proc/net/tcp", "proc/cmdline", "proc/self/status",
          "proc/sys/net/ipv4/ip_local_port_range", "proc/sys/net/ipv4/tcp_rmem", "proc/sys/net/core/somaxconn",
          "proc/self/cgroup", "sys/fs/cgroup/pids.max", "sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory.current",
          "sys/fs/cgroup/memory.stat", "sys/class/net/eth0/carrier_changes", "sys/bus/pci/devices/0000:00:01.0/config",
          "proc/driver/nvidia/version", "dev/shm/1:2:3"})
      host.write(file, nonsense);
    host.facts.environment = {{"FABRING_RANK", nonsense.substr(0, 50)},
                              {"FI_LOG_LEVEL", nonsense.substr(0, 50)},
                              {"SLURM_NNODES", nonsense.substr(0, 50)},
                              {"FABRING_MASTER_PORT", "999999999999999"}};
    EXPECT_FALSE(host.check().empty());
  }
}

}  // namespace
}  // namespace fabring::tests

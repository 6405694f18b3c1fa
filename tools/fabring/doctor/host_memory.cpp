// Shared memory and what others left in it, whether processes may read each other's, huge pages, free memory.

#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <system_error>

#include "tools/fabring/doctor/host_checks.hpp"
#include "tools/fabring/doctor/seen_processes.hpp"
#include "topology/group_limits.hpp"
#include "topology/memory_left.hpp"

namespace fabring::tools {
namespace {

Finding shm_size(const HostFacts& facts) {
  const std::string id = "memory.shm";
  const std::string kind = container_kind(facts);
  const std::string fix = kind == "kubernetes" ? "mount an emptyDir with medium: Memory at /dev/shm"
                          : !kind.empty()      ? "docker run --shm-size=8g, or --ipc=host"
                                               : "mount -o remount,size=8G /dev/shm";
  if (!facts.shm)
    return {id, Severity::warning, "there is no /dev/shm", "data loaders of PyTorch, NCCL and Gloo need it", fix, {}};
  const std::string what =
      fmt::format("/dev/shm has {}, {} of it free", amount(facts.shm->total_bytes), amount(facts.shm->free_bytes));
  if (!facts.shm->unwritable.empty())
    return {
        id,
        Severity::warning,
        fmt::format("/dev/shm cannot be written to: {}", facts.shm->unwritable),
        "data loaders of PyTorch, NCCL and Gloo make their files there and end with an error (Fabring itself does not "
        "use it)",
        kind.empty() ? "mount -o remount,rw,mode=1777 /dev/shm" : "give the container a /dev/shm of its own: " + fix,
        {}};
  if (facts.shm->total_bytes <= (256ull << 20))
    return {
        id,
        Severity::warning,
        what,
        "a container's 64 MiB are too few for data loaders of PyTorch and for NCCL: they die with SIGBUS or 'No space "
        "left on device', long after the start (Fabring itself does not use it)",
        fix,
        {}};
  if (facts.shm->free_bytes < facts.shm->total_bytes / 20)
    return {id,
            Severity::warning,
            what,
            "nearly full: whoever needs it next dies with SIGBUS",
            "see what fills it: ls -lS /dev/shm",
            {}};
  return fine(id, what);
}

// libfabric's shm provider names its files by the process: "1234:0:1"; it cannot clean up after a kill -9.
std::optional<long long> owner_of(const std::string& name) {
  long long pid = 0;
  const auto [rest, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
  if (error != std::errc{} || rest == name.data() + name.size() || *rest != ':' || pid <= 0) return std::nullopt;
  return pid;
}

std::optional<Finding> shm_leftovers(const HostFacts& facts) {
  std::vector<std::string> dead, unseen, suspects;
  SeenProcesses processes(facts.files);
  for (const std::string& name : facts.files.list("dev/shm")) {
    if (const auto pid = owner_of(name)) {
      const auto lives = processes.has(*pid);
      if (!lives.value_or(true)) dead.push_back(name);
      if (!lives) unseen.push_back(name);
    } else if (name.starts_with("nccl-") || name.starts_with("torch_") || name.starts_with("psm2_shm")) {
      suspects.push_back(name);
    }
  }
  if (!dead.empty())
    return Finding{"memory.shm_leftovers",
                   Severity::warning,
                   fmt::format("{} file{} in /dev/shm of processes that are dead: {}{}", dead.size(),
                               dead.size() == 1 ? "" : "s", dead.front(), dead.size() > 1 ? ", ..." : ""),
                   "memory that nobody frees; a node fills up over days of killed jobs",
                   "rm /dev/shm/" + dead.front() + (dead.size() > 1 ? " and the others like it" : ""),
                   {}};
  if (!unseen.empty())
    return note(
        "memory.shm_leftovers",
        fmt::format("{} file{} of libfabric in /dev/shm of processes that are not seen from here ({}{}): left "
                    "over, if no job in another container uses them (fuser, as root on the host, shows who)",
                    unseen.size(), unseen.size() == 1 ? "" : "s", unseen.front(), unseen.size() > 1 ? ", ..." : ""));
  if (!suspects.empty())
    return note("memory.shm_leftovers",
                fmt::format("{} file{} of NCCL or PyTorch in /dev/shm ({}{}): left over, if no such job runs here",
                            suspects.size(), suspects.size() == 1 ? "" : "s", suspects.front(),
                            suspects.size() > 1 ? ", ..." : ""));
  return fine("memory.shm_leftovers", "nothing left over in /dev/shm");
}

Finding huge_pages(const std::string& table) {
  const std::string id = "memory.huge_pages";
  const auto total = meminfo(table, "HugePages_Total"), free = meminfo(table, "HugePages_Free");
  if (!total || !free) return unchecked(id, "huge pages: /proc/meminfo does not say");
  if (*total == 0) return fine(id, "no huge pages reserved; none are needed");
  const std::string what = fmt::format("{} huge pages reserved, {} free", *total, *free);
  if (*free > 0) return fine(id, what);
  return {
      id,
      Severity::warning,
      what,
      "libfabric's EFA provider takes huge pages for its buffers unless FI_EFA_USE_HUGE_PAGE=0, which Fabring sets for "
      "itself where nobody has set it; with none left, a process that forks (data loaders) fails with 'Cannot allocate "
      "memory'",
      "sysctl -w vm.nr_hugepages=N with a larger N, or FI_EFA_USE_HUGE_PAGE=0 for programs without Fabring too",
      {}};
}

bool is_enough(const MemoryLimit& room) {
  return room.free_bytes >= room.total_bytes / 20 || room.free_bytes >= (8ull << 30);
}

// Of the host or a control group: what runs out, else what has the least left.
MemoryLimit tightest(MemoryLimit host, const HostFiles& files) {
  MemoryLimit least = std::move(host);
  const std::uint64_t all = least.total_bytes;
  for (MemoryLimit& limit : memory_limits(files)) {
    if (!is_enough(least)) break;
    if (limit.total_bytes < all && (limit.free_bytes < least.free_bytes || !is_enough(limit))) least = std::move(limit);
  }
  return least;
}

Finding available(const HostFacts& facts, const std::string& table) {
  const std::string id = "memory.free";
  const auto total = meminfo(table, "MemTotal"), free = meminfo(table, "MemAvailable");
  if (!total || !free) return unchecked(id, "free memory: /proc/meminfo does not say");
  const MemoryLimit room = tightest({"", *total, *free}, facts.files);
  const std::string what = fmt::format("{} of memory free of {}{}", amount(room.free_bytes), amount(room.total_bytes),
                                       room.group.empty() ? "" : " that the control group " + room.group + " allows");
  if (is_enough(room)) return fine(id, what);
  return {id,
          Severity::warning,
          what,
          "the kernel kills the largest process when it runs out: the job's",
          room.group.empty() ? "see who has it: ps aux --sort=-rss | head"
                             : "see who has it: ps aux --sort=-rss | head; or ask for more (srun --mem, docker run "
                               "--memory, Kubernetes resources.limits.memory)",
          {}};
}

// Yama's scope of 1 lets only a process's ancestors look into it, 2 only who has the capability, 3 nobody.
Finding reading(const HostFacts& facts) {
  const std::string id = "memory.read";
  if (!facts.process_read)
    return unchecked(id, "whether ranks may read each other's memory: no process could be started to try it");
  if (*facts.process_read == 0) return fine(id, "ranks of this host may read each other's memory");
  const std::string scope = facts.files.line("proc/sys/kernel/yama/ptrace_scope").value_or("0");
  const bool by_yama = *facts.process_read == EPERM && scope != "0";
  return {id,
          Severity::info,
          fmt::format("ranks of this host may not read each other's memory: {}{}",
                      std::error_code(*facts.process_read, std::generic_category()).message(),
                      by_yama ? ", as kernel.yama.ptrace_scope is " + scope : ""),
          "all_gather, alltoall and scatter of long buffers (and broadcasts between two) copy twice what they would "
          "copy once; results are the same "
          "(buffers of fabring_mem_alloc are copied once in any case)",
          by_yama && scope == "3" ? "kernel.yama.ptrace_scope=0 at boot, as the kernel lowers a 3 no more; then any "
                                    "process of a user may look into the user's others"
          : by_yama ? "sysctl -w kernel.yama.ptrace_scope=0; then any process of a user may look into the user's others"
          : !container_kind(facts).empty() ? "docker run --cap-add=SYS_PTRACE, or a seccomp profile that allows "
                                             "process_vm_readv"
                                           : "",
          {}};
}

}  // namespace

Findings check_memory(const HostFacts& facts) {
  Findings found{shm_size(facts)};
  if (const auto finding = shm_leftovers(facts)) found.push_back(*finding);
  const std::string table = facts.files.text("proc/meminfo").value_or("");
  found.push_back(huge_pages(table));
  found.push_back(available(facts, table));
  found.push_back(reading(facts));
  return found;
}

}  // namespace fabring::tools

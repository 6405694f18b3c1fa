// Limits of this process, as /proc/self/limits has them (soft and hard), and of its control group.

#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "tools/fabring/doctor/host_checks.hpp"
#include "tools/fabring/doctor/lock_right.hpp"
#include "topology/group_limits.hpp"

namespace fabring::tools {
namespace {

constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

struct Limit {
  std::uint64_t soft = 0, hard = 0;
};

std::optional<Limit> limit_named(const std::string& table, std::string_view name) {
  const std::size_t at = table.find(name);
  if (at == std::string::npos) return std::nullopt;
  const auto row = words(std::string_view(table).substr(at + name.size(), 64));
  if (row.size() < 2) return std::nullopt;
  const auto value = [](const std::string& word) {
    std::uint64_t number = unlimited;
    std::from_chars(word.data(), word.data() + word.size(), number);
    return number;
  };
  return Limit{value(row[0]), value(row[1])};
}

std::string who_sets(const HostFacts& facts, std::string_view flag, std::string_view systemd, std::string_view pam) {
  const std::string kind = container_kind(facts);
  if (kind == "docker" || kind == "podman") return fmt::format("start the container with --ulimit {}=-1", pam);
  if (kind == "kubernetes")
    return fmt::format("raise the container runtime's {} (its systemd unit); a pod cannot", systemd);
  return fmt::format(
      "ulimit {}; for services {}=infinity in the systemd unit (also of slurmd: "
      "it ignores /etc/security/limits.conf); for logins '* - {} unlimited' there",
      flag, systemd, pam);
}

bool has_rdma(const HostFacts& facts) {
  if (const Topology* topology = known_topology(facts))
    for (const Nic& nic : topology->nics)
      if (nic.kind == NicKind::efa || nic.kind == NicKind::infiniband) return true;
  return !facts.files.list("sys/class/infiniband").empty();
}

// What root runs on a host, as a prolog of Slurm's, may do more than the ranks, which are some user's.
bool passes_for_a_rank(const HostFacts& facts) { return !container_kind(facts).empty() || runs_as_rank(facts); }

Finding memlock(const HostFacts& facts, const Limit& limit) {
  const std::string id = "limits.memlock";
  std::string what =
      fmt::format("locked memory is limited to {} (hard limit {})", amount(limit.soft), amount(limit.hard));
  const bool rdma = has_rdma(facts);
  if (limit.soft >= (rdma ? 1ull << 30 : 1ull << 20)) return fine(id, what);
  const LockRight right = lock_right(facts.files);
  if (right == LockRight::whole) {
    what +=
        ", which does not hold this process: it has the capability IPC_LOCK. It holds the ranks of users who do not "
        "have it";
    if (passes_for_a_rank(facts)) return note(id, what);
  }
  std::string fix = who_sets(facts, "-l unlimited", "LimitMEMLOCK", "memlock");
  // The capability is what whoever writes the pod can give; in a user namespace it would not help.
  if (container_kind(facts) == "kubernetes" && right != LockRight::namespaced)
    fix = "securityContext.capabilities.add: [IPC_LOCK], of a container that runs as root; or " + fix;
  if (rdma)
    return {
        id,
        limit.soft < (64ull << 20) ? Severity::critical : Severity::warning,
        what,
        "this host has an RDMA card (EFA, InfiniBand): every buffer it touches must be locked, and registering fails "
        "with 'Cannot allocate memory' or -12",
        fix,
        {}};
  return {id,   Severity::warning,
          what, "far below any usual setting: RDMA cards and pinned GPU buffers fail under it",
          fix,  {}};
}

Finding nofile(const HostFacts& facts, const Limit& limit) {
  const std::string id = "limits.nofile";
  const std::string what = fmt::format("{} open files allowed (hard limit {})",
                                       limit.soft == unlimited ? "unlimited" : std::to_string(limit.soft),
                                       limit.hard == unlimited ? "unlimited" : std::to_string(limit.hard));
  // A rank raises its own soft limit as far as it must; what its program opens before counts against the one it got.
  constexpr std::uint64_t little_for_a_program = 256, little_for_a_rank = 4096;
  const bool low = limit.soft < little_for_a_program;
  if (!low && limit.hard >= little_for_a_rank) return fine(id, what);
  return {id,
          low ? Severity::critical : Severity::warning,
          what,
          "a rank needs up to four sockets for every other rank that it talks to, and that on every network card, "
          "besides the files of the program: it ends with 'Too many open files'. It raises the soft limit itself, not "
          "the hard one",
          low && limit.hard >= little_for_a_rank
              ? "ulimit -n " + std::to_string(std::min<std::uint64_t>(limit.hard, 65536)) +
                    " before the job, or in its script"
              : who_sets(facts, "-n 65536", "LimitNOFILE", "nofile"),
          {}};
}

Finding nproc(const HostFacts& facts, const Limit& limit) {
  const std::string id = "limits.nproc";
  const std::string what = fmt::format("{} processes and threads allowed for this user",
                                       limit.soft == unlimited ? "unlimited" : std::to_string(limit.soft));
  if (limit.soft >= 1024) return fine(id, what);
  return {id,
          limit.soft < 128 ? Severity::critical : Severity::warning,
          what,
          "every rank has threads of its own, of the framework and of Fabring; beyond the limit they cannot be started",
          who_sets(facts, "-u 65536", "LimitNPROC", "nproc"),
          {}};
}

Finding address_space(const HostFacts&, const Limit& limit) {
  const std::string id = "limits.address_space";
  if (limit.soft >= (1ull << 40)) return fine(id, "the address space is not limited in a way that matters");
  return {
      id,
      Severity::warning,
      fmt::format("the address space of a process is limited to {} (ulimit -v)", amount(limit.soft)),
      "it counts what is only mapped: shared memory, libraries, all that a GPU's driver reserves. Beyond it mapping "
      "and 'malloc' fail with 'Cannot allocate memory' while there is plenty",
      "ulimit -v unlimited in the job's script; batch systems set it from the memory asked for (h_vmem, pvmem): let "
      "them limit resident memory by a control group instead",
      {}};
}

Finding file_size(const HostFacts&, const Limit& limit) {
  const std::string id = "limits.file_size";
  if (limit.soft >= (1ull << 40)) return fine(id, "the size of files is not limited in a way that matters");
  return {
      id,
      Severity::warning,
      fmt::format("a file may have {} at most (ulimit -f)", amount(limit.soft)),
      "shared memory counts as a file: ranks of this host exchange data through the network if it does not fit, and "
      "have no mapped memory",
      "ulimit -f unlimited in the job's script; batch systems set it too (h_fsize)",
      {}};
}

std::optional<Finding> pids(const HostFacts& facts) {
  const auto limit = task_limit(facts.files);
  if (!limit) return std::nullopt;
  const std::string what = fmt::format("the control group {} allows {} threads", limit->group, limit->most);
  if (limit->most >= 1024) return fine("limits.pids", what);
  return Finding{"limits.pids",
                 limit->most < 128 ? Severity::critical : Severity::warning,
                 what,
                 "ranks, their threads and data loaders share it; beyond it threads cannot be started",
                 container_kind(facts).empty()
                     ? "systemctl set-property UNIT TasksMax=infinity, of the unit that the group's path names"
                     : "docker run --pids-limit -1; Kubernetes: the kubelet's podPidsLimit",
                 {}};
}

}  // namespace

Findings check_limits(const HostFacts& facts) {
  Findings found;
  const auto table = facts.files.text("proc/self/limits");
  const auto add = [&](std::string_view row, const char* id, auto check) {
    const auto limit = table ? limit_named(*table, row) : std::nullopt;
    found.push_back(limit ? check(facts, *limit)
                          : unchecked(id, fmt::format("{}: /proc/self/limits does not say", row)));
  };
  add("Max locked memory", "limits.memlock", memlock);
  add("Max open files", "limits.nofile", nofile);
  add("Max processes", "limits.nproc", nproc);
  add("Max address space", "limits.address_space", address_space);
  add("Max file size", "limits.file_size", file_size);
  if (const auto finding = pids(facts)) found.push_back(*finding);
  return found;
}

}  // namespace fabring::tools

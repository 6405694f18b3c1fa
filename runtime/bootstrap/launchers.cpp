#include "runtime/bootstrap/launchers.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/parse_value.hpp"
#include "runtime/base/service_links.hpp"

namespace fabring {
namespace {

constexpr std::int64_t most_ranks = 1 << 20;

bool has(const Environment& environment, std::string_view name) {
  const auto at = environment.find(name);
  return at != environment.end() && !at->second.empty();
}

// All ranks are on one host: loopback will do.
void meet_on_this_host(std::string_view why, LaunchInfo& info) {
  info.master_addr = "127.0.0.1";
  info.sources["FABRING_MASTER_ADDR"] = fmt::format("{} {}", info.launcher, why);
}

// A port that other jobs of the same host are not likely to use; should one, the next ones are tried.
void meet_at_derived_port(std::string_view identity, LaunchInfo& info) {
  info.master_port = derived_port(identity);
  info.master_port_shared = true;
  info.sources["FABRING_MASTER_PORT"] = fmt::format("{}, derived from the job's identity", info.launcher);
}

void identify(std::string identity, std::string_view variables, LaunchInfo& info) {
  info.job_id = std::move(identity);
  info.sources["FABRING_JOB_ID"] = fmt::format("{} {}", info.launcher, variables);
}

// A JSON list of plain strings.
Result<std::vector<std::string>> json_names(std::string_view text) {
  const Status bad(ErrorCode::invalid_argument,
                   fmt::format("SM_HOSTS={} is not a JSON list of names", text.substr(0, 200)));
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return bad;
  auto items = parse_list(text.substr(1, text.size() - 2));
  if (!items) return bad;
  for (std::string& item : *items) {
    if (item.size() < 3 || item.front() != '"' || item.back() != '"') return bad;
    item = item.substr(1, item.size() - 2);
    if (item.find_first_of("\"\\") != std::string::npos) return bad;
  }
  return items;
}

// --- torchrun, and everything else that speaks its names -----------------------------------------------------------

Status torchrun_read(const LauncherInput& in, LaunchInfo& info, LauncherAdvice&) {
  FABRING_TRY(in.place(info));
  info.master_addr = in.text("MASTER_ADDR");
  info.master_named_by = "MASTER_ADDR";
  info.sources["FABRING_MASTER_ADDR"] = "torchrun MASTER_ADDR";
  info.master_port = 29500;  // torch's own default
  info.sources["FABRING_MASTER_PORT"] = "torchrun's default";
  FABRING_TRY(in.number("MASTER_PORT", 1, "FABRING_MASTER_PORT", info.master_port, info));
  // The agent's store may listen there, and with TORCHELASTIC_USE_AGENT_STORE=True it does.
  info.master_port_shared = true;
  // TORCHELASTIC_RESTART_COUNT differs between the nodes of one incarnation and must not be part of the identity. The
  // port tells incarnations apart where the c10d rendezvous takes a new one at every restart.
  identify(fmt::format("torchrun.{}.{}", in.has("TORCHELASTIC_RUN_ID") ? in.text("TORCHELASTIC_RUN_ID") : "none",
                       info.master_port),
           "TORCHELASTIC_RUN_ID, MASTER_PORT", info);
  return {};
}

// --- Open MPI ------------------------------------------------------------------------------------------------------

Status open_mpi_read(const LauncherInput& in, LaunchInfo& info, LauncherAdvice& advice) {
  FABRING_TRY(in.place(info));
  const std::string identity =
      fmt::format("openmpi.{}.{}", in.text("PMIX_NAMESPACE"), in.text("OMPI_MCA_orte_precondition_transports"));
  identify(identity, "PMIX_NAMESPACE, OMPI_MCA_orte_precondition_transports", info);
  // OMPI_MCA_orte_hnp_uri names mpirun's host, which need not be rank 0's; no variable names that one.
  if (in.text(in.row.local_size) == in.text(in.row.size))
    meet_on_this_host(fmt::format("{} (all ranks are here)", in.row.local_size), info);
  meet_at_derived_port(identity, info);
  advice.no_address = "pass -x FABRING_MASTER_ADDR=<host of rank 0> to mpirun";
  // SageMaker's distribution "mpi": its toolkit calls mpirun, with the hosts in the order of the list.
  if (in.has("SM_HOSTS")) {
    const auto hosts = json_names(in.text("SM_HOSTS"));
    advice.no_address = fmt::format(
        "have SageMaker pass it to mpirun: distribution={{\"mpi\": {{\"enabled\": True, \"custom_mpi_options\": "
        "\"-x FABRING_MASTER_ADDR={}\"}}}}",
        hosts && !hosts->empty() ? hosts->front() : "<first of SM_HOSTS>");
  }
  return {};
}

// --- PMI: MPICH, Intel MPI and their Hydra; PMIx -------------------------------------------------------------------

Status slurm_read(const LauncherInput& in, LaunchInfo& info, LauncherAdvice& advice);

// A batch script sees SLURM_PROCID=0 and SLURM_NTASKS too; only a step has ranks.
constexpr Launcher slurm_step{.name = "Slurm",
                              .known_by = {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},
                              .rank = "SLURM_PROCID",
                              .size = "SLURM_STEP_NUM_TASKS",
                              .local_rank = "SLURM_LOCALID",
                              .local_size = "SLURM_NTASKS_PER_NODE",
                              .around_others = true,
                              .read = slurm_read};

// srun offers PMI itself (--mpi=pmi2, --mpi=pmix). It is srun, and not a Hydra inside the allocation, if the step
// counts the same ranks; then the step's variables say where rank 0 is, which PMI's do not.
bool step_agrees(const LauncherInput& in) {
  return in.has("SLURM_STEP_ID") && in.text(slurm_step.rank) == in.text(in.row.rank) &&
         (in.row.size.empty() || in.text(slurm_step.size) == in.text(in.row.size));
}

Status read_as_step(const LauncherInput& in, LaunchInfo& info, LauncherAdvice& advice) {
  info.launcher = slurm_step.name;
  return slurm_read({in.environment, in.facts, slurm_step}, info, advice);
}

Status pmi_read(const LauncherInput& in, LaunchInfo& info, LauncherAdvice& advice) {
  if (!in.has("PMI_RANK") || !in.has("PMI_SIZE")) {
    advice.no_rank = fmt::format(
        "{} is set without {}: under mpiexec -pmi-port the rank is not in the environment; start without -pmi-port, or "
        "set "
        "FABRING_RANK, FABRING_WORLD_SIZE and FABRING_MASTER_ADDR",
        in.has("PMI_RANK") ? "PMI_RANK" : "PMI_ID", in.has("PMI_RANK") ? "PMI_SIZE" : "PMI_RANK and PMI_SIZE");
    return {};
  }
  if (step_agrees(in)) return read_as_step(in, info, advice);
  FABRING_TRY(in.place(info));
  const std::string identity = fmt::format("pmi.{}.{}", in.text("PMI_JOBID"), in.facts.launcher_process);
  if (in.text(in.row.local_size) == in.text(in.row.size)) {
    identify(identity, in.has("PMI_JOBID") ? "PMI_JOBID" : "process", info);
    meet_on_this_host(fmt::format("{} (all ranks are here)", in.row.local_size), info);
    meet_at_derived_port(identity, info);
  }
  advice.no_address = "pass -genv FABRING_MASTER_ADDR <host of rank 0> to mpiexec";
  return {};
}

Status pmix_read(const LauncherInput& in, LaunchInfo& info, LauncherAdvice& advice) {
  if (step_agrees(in)) return read_as_step(in, info, advice);
  FABRING_TRY(in.place(info));
  identify(fmt::format("pmix.{}", in.text("PMIX_NAMESPACE")), "PMIX_NAMESPACE", info);
  advice.no_rank = fmt::format(
      "PMIX_RANK={} says which rank this is, but no variable says of how many: set FABRING_WORLD_SIZE and "
      "FABRING_MASTER_ADDR",
      in.text("PMIX_RANK"));
  advice.no_address = "set FABRING_MASTER_ADDR to the host of rank 0";
  return {};
}

// --- Slurm ---------------------------------------------------------------------------------------------------------

// The list whose first host has rank 0. A step of several components of a heterogeneous job (--het-group=0,1) has its
// hosts sorted by name, but its ranks by component: then it is the first component's, where that takes part. All ranks
// see the same lists, and rank 0 sees whether it is there.
Result<std::string_view> slurm_list_of_rank_0(const LauncherInput& in) {
  constexpr std::string_view step = "SLURM_STEP_NODELIST", component = "SLURM_JOB_NODELIST_HET_GROUP_0";
  if (!in.has("SLURM_HET_SIZE") || !in.has(component)) return step;
  auto hosts = expand_host_list(in.text(step), most_ranks);
  if (!hosts) return hosts.error().with_prefix(fmt::format("{}: ", step));
  const auto first = expand_host_list(in.text(component), 1);
  return first && std::ranges::find(*hosts, first->front()) != hosts->end() ? component : step;
}

Status slurm_address(const LauncherInput& in, LaunchInfo& info) {
  if (in.text("SLURM_STEP_NUM_NODES") == "1") {
    // Node names need not resolve (slurmd -N); on one node they need not.
    info.master_addr = "127.0.0.1";
    info.sources["FABRING_MASTER_ADDR"] = "Slurm SLURM_STEP_NUM_NODES (all ranks are here)";
    return {};
  }
  // SLURM_JOB_NODELIST is the whole allocation; SLURM_LAUNCH_NODE_IPADDR is srun's own host.
  auto list = slurm_list_of_rank_0(in);
  if (!list) return list.error();
  auto hosts = expand_host_list(in.text(*list), 1);
  if (!hosts) return hosts.error().with_prefix(fmt::format("{}: ", *list));
  info.master_addr = hosts->front();
  info.master_named_by = *list;
  info.sources["FABRING_MASTER_ADDR"] = fmt::format("Slurm {}", *list);
  // The list is sorted and rank 0 may be elsewhere (-m arbitrary, --het-group). Whoever can see it says so.
  const bool first_node = in.text("SLURM_NODEID") == "0", first_there = in.text("SLURM_LOCALID") == "0";
  if (in.has("SLURM_NODEID") && (info.rank == 0 ? !first_node : first_node && first_there))
    return {ErrorCode::invalid_argument,
            fmt::format("rank {} is on node {} of the step, but rank 0 must be on the first of {}={} where "
                        "the ranks meet; start without -m arbitrary, or set FABRING_MASTER_ADDR to the host of rank 0",
                        info.rank, in.text("SLURM_NODEID"), *list, in.text(*list))};
  const std::string_view here = in.text("SLURMD_NODENAME");
  if (info.rank == 0 && !here.empty() && here != info.master_addr)
    return {ErrorCode::invalid_argument,
            fmt::format("rank 0 is on {}, but the ranks meet on {}, the first of {}={}; start without -m arbitrary and "
                        "--het-group, or set FABRING_MASTER_ADDR to the host of rank 0",
                        here, info.master_addr, *list, in.text(*list))};
  return {};
}

Status slurm_read(const LauncherInput& in, LaunchInfo& info, LauncherAdvice& advice) {
  if (!is_known(slurm_step, in.environment)) {
    advice.no_rank = fmt::format(
        "inside Slurm job {}, but not started by srun (no SLURM_STEP_NUM_TASKS): start with srun, or with `fabring "
        "run`",
        in.text("SLURM_JOB_ID"));
    return {};
  }
  FABRING_TRY(in.place(info));
  identify(
      fmt::format("slurm.{}.{}.{}", in.text("SLURM_JOB_ID"), in.text("SLURM_STEP_ID"), in.text("SLURM_RESTART_COUNT")),
      "SLURM_JOB_ID, SLURM_STEP_ID", info);
  meet_at_derived_port(info.job_id, info);
  if (in.has("SLURM_STEP_RESV_PORTS")) {
    const std::string_view reserved = in.text("SLURM_STEP_RESV_PORTS");
    auto first = parse_integer(reserved.substr(0, reserved.find_first_of("-,")), 1, 65535);
    if (!first) return first.error().with_prefix(fmt::format("SLURM_STEP_RESV_PORTS={}: ", reserved));
    info.master_port = static_cast<int>(*first);
    info.sources["FABRING_MASTER_PORT"] = "Slurm SLURM_STEP_RESV_PORTS";
  }
  if (has(in.environment, "FABRING_MASTER_ADDR")) return {};  // says where to meet; the node list does not matter
  return slurm_address(in, info);
}

// --- torchrun's arguments, and no torchrun ---------------------------------------------------------------------------

}  // namespace

std::string arguments_without_torchrun(const Environment& environment) {
  std::string arguments;
  for (auto at = environment.lower_bound("PET_"); at != environment.end() && at->first.starts_with("PET_"); ++at)
    if (!at->second.empty()) arguments += (arguments.empty() ? "" : ", ") + at->first.substr(0, 100);
  if (arguments.empty()) return arguments;
  return fmt::format("no rank: PET_* are torchrun's arguments ({} {} set): start the program with torchrun", arguments,
                     arguments.find(',') == arguments.npos ? "is" : "are");
}

namespace {

// --- Kubernetes, SageMaker: hosts and pods, not ranks ---------------------------------------------------------------

Status kubernetes_read(const LauncherInput& in, LaunchInfo& info, LauncherAdvice& advice) {
  FABRING_TRY(in.place(info));
  if (in.has("PET_NNODES"))
    advice.no_rank = arguments_without_torchrun(in.environment);
  else
    advice.no_rank = fmt::format(
        "JOB_COMPLETION_INDEX={} numbers this pod, but no variable says how many there are: set FABRING_WORLD_SIZE and "
        "FABRING_MASTER_ADDR=<job>-0.<service> in the pod template (one rank per pod)",
        in.text("JOB_COMPLETION_INDEX"));
  advice.no_address = "set FABRING_MASTER_ADDR=<job>-0.<service> in the pod template";
  return {};
}

Status sagemaker_read(const LauncherInput& in, LaunchInfo& info, LauncherAdvice&) {
  auto hosts = json_names(in.text("SM_HOSTS"));
  if (!hosts) return hosts.error();
  // The list is sorted as text (algo-1, algo-10, algo-2): the place in it counts, not the number in the name.
  const auto self = std::find(hosts->begin(), hosts->end(), in.text("SM_CURRENT_HOST"));
  if (self == hosts->end())
    return {ErrorCode::invalid_argument,
            fmt::format("SM_CURRENT_HOST={} is not in SM_HOSTS={}", in.text("SM_CURRENT_HOST"), in.text("SM_HOSTS"))};
  info.rank = static_cast<int>(self - hosts->begin());
  info.world_size = static_cast<int>(hosts->size());
  info.local_rank = 0;
  info.master_addr = hosts->front();
  info.master_named_by = "SM_HOSTS";
  for (const char* setting : {"FABRING_RANK", "FABRING_LOCAL_RANK"})
    info.sources[setting] = "SageMaker SM_CURRENT_HOST (one rank per host)";
  for (const char* setting : {"FABRING_WORLD_SIZE", "FABRING_MASTER_ADDR"})
    info.sources[setting] = "SageMaker SM_HOSTS";
  if (in.has("TRAINING_JOB_NAME"))
    identify(fmt::format("sagemaker.{}", in.text("TRAINING_JOB_NAME")), "TRAINING_JOB_NAME", info);
  return {};
}

// --- started by hand, half ------------------------------------------------------------------------------------------

Status half_torchrun_read(const LauncherInput& in, LaunchInfo& info, LauncherAdvice& advice) {
  FABRING_TRY(in.place(info));
  advice.no_rank = "RANK and MASTER_ADDR are set, but WORLD_SIZE is not";
  advice.no_address = "RANK and WORLD_SIZE are set, but MASTER_ADDR is not; set it to the host of rank 0";
  return {};
}

// Slurm comes after whatever may run inside its allocation: under mpirun, Hydra and torchrun in a batch script the
// SLURM_* variables count daemons, not ranks.
constexpr Launcher rows[] = {
    {.name = "torchrun",
     .known_by = {"RANK", "WORLD_SIZE", "MASTER_ADDR"},
     .rank = "RANK",
     .size = "WORLD_SIZE",
     .local_rank = "LOCAL_RANK",
     .local_size = "LOCAL_WORLD_SIZE",
     .read = torchrun_read},
    {.name = "Open MPI",
     .known_by = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
     .rank = "OMPI_COMM_WORLD_RANK",
     .size = "OMPI_COMM_WORLD_SIZE",
     .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
     .local_size = "OMPI_COMM_WORLD_LOCAL_SIZE",
     .read = open_mpi_read},
    {.name = "PMI",
     .known_by = {"PMI_RANK"},
     .rank = "PMI_RANK",
     .size = "PMI_SIZE",
     .local_rank = "MPI_LOCALRANKID",
     .local_size = "MPI_LOCALNRANKS",
     .read = pmi_read},
    {.name = "PMI", .known_by = {"PMI_ID"}, .rank = "PMI_ID", .read = pmi_read},  // under -pmi-port
    {.name = "PMIx", .known_by = {"PMIX_RANK"}, .rank = "PMIX_RANK", .read = pmix_read},
    slurm_step,
    {.name = "Slurm", .known_by = {"SLURM_JOB_ID"}, .around_others = true, .read = slurm_read},  // a batch script
    {.name = "Kubernetes",
     .known_by = {"JOB_COMPLETION_INDEX"},
     .rank = "JOB_COMPLETION_INDEX",
     .around_others = true,
     .read = kubernetes_read},
    {.name = "SageMaker",
     .known_by = {"SM_HOSTS", "SM_CURRENT_HOST"},
     .rank = "SM_CURRENT_HOST",
     .around_others = true,
     .read = sagemaker_read},
    {.name = "RANK, WORLD_SIZE",
     .known_by = {"RANK", "WORLD_SIZE"},
     .rank = "RANK",
     .size = "WORLD_SIZE",
     .read = half_torchrun_read},
    {.name = "RANK, WORLD_SIZE",
     .known_by = {"RANK", "MASTER_ADDR"},
     .rank = "RANK",
     .size = "WORLD_SIZE",
     .read = half_torchrun_read},
};

}  // namespace

std::string_view LauncherInput::text(std::string_view name) const {
  const auto at = environment.find(name);
  return at == environment.end() ? std::string_view() : std::string_view(at->second);
}

Status LauncherInput::number(std::string_view name, std::int64_t least, std::string_view setting, int& into,
                             LaunchInfo& info) const {
  if (name.empty() || !has(name)) return {};
  auto value = parse_integer(text(name), least, setting == "FABRING_MASTER_PORT" ? 65535 : most_ranks);
  if (!value) {
    const std::string why = hidden_by_a_service(name, text(name));
    const Status wrong = why.empty() ? value.error() : Status(ErrorCode::invalid_argument, why);
    return wrong.with_prefix(fmt::format("{}={}: ", name, text(name).substr(0, 200)));
  }
  into = static_cast<int>(*value);
  info.sources[std::string(setting)] = fmt::format("{} {}", info.launcher, name);
  return {};
}

Status LauncherInput::place(LaunchInfo& info) const {
  FABRING_TRY(number(row.rank, 0, "FABRING_RANK", info.rank, info));
  FABRING_TRY(number(row.size, 1, "FABRING_WORLD_SIZE", info.world_size, info));
  return number(row.local_rank, 0, "FABRING_LOCAL_RANK", info.local_rank, info);
}

bool is_known(const Launcher& launcher, const Environment& environment) {
  return std::ranges::all_of(launcher.known_by,
                             [&](std::string_view name) { return name.empty() || has(environment, name); });
}

std::span<const Launcher> launchers() { return rows; }

}  // namespace fabring

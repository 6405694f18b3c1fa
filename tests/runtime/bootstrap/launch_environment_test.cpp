// The environments are those that ranks printed under the launchers named, cut to what matters.
#include "runtime/bootstrap/launch_environment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/bootstrap/environment_config.hpp"

namespace fabring {
namespace {

using testing::HasSubstr;

Environment operator+(Environment left, const Environment& right) {
  for (const auto& [name, value] : right) left[name] = value;
  return left;
}

Result<LaunchInfo> launch(const Environment& environment, const LaunchFacts& facts = {}) {
  Config own;
  const Status status = apply_settings(environment, own);
  if (!status.ok()) return status;
  return read_launch_environment(environment, own, facts);
}

const Environment torchrun{{"RANK", "3"},
                           {"WORLD_SIZE", "4"},
                           {"LOCAL_RANK", "1"},
                           {"MASTER_ADDR", "n0"},
                           {"MASTER_PORT", "29500"},
                           {"TORCHELASTIC_RUN_ID", "job1"},
                           {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
const Environment mpirun_two_hosts{{"OMPI_COMM_WORLD_RANK", "2"},
                                   {"OMPI_COMM_WORLD_SIZE", "5"},
                                   {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                                   {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                   {"PMIX_NAMESPACE", "1234"},
                                   {"PMIX_RANK", "2"},
                                   {"OMPI_MCA_orte_precondition_transports", "97ab-54d2"}};
const Environment mpirun_one_host = mpirun_two_hosts + Environment{{"OMPI_COMM_WORLD_LOCAL_SIZE", "5"}};
const Environment hydra_two_hosts{
    {"PMI_RANK", "2"}, {"PMI_SIZE", "4"}, {"PMI_FD", "7"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"}};
const Environment hydra_one_host = hydra_two_hosts + Environment{{"MPI_LOCALNRANKS", "4"}};
const Environment srun{{"SLURM_JOB_ID", "14"},
                       {"SLURM_STEP_ID", "0"},
                       {"SLURM_PROCID", "2"},
                       {"SLURM_STEP_NUM_TASKS", "4"},
                       {"SLURM_NTASKS", "4"},
                       {"SLURM_LOCALID", "1"},
                       {"SLURM_NODEID", "1"},
                       {"SLURM_STEP_NUM_NODES", "2"},
                       {"SLURM_STEP_NODELIST", "n[3-4]"},
                       {"SLURM_JOB_NODELIST", "n[1-4]"},
                       {"SLURM_LAUNCH_NODE_IPADDR", "10.77.0.99"}};
// srun --het-group=0,1: gpu[1-2] are component 0, cpu[1-2] component 1.
const Environment het_step =
    srun + Environment{{"SLURM_STEP_NUM_NODES", "4"}, {"SLURM_STEP_NODELIST", "cpu[1-2],gpu[1-2]"},
                       {"SLURM_HET_SIZE", "2"},       {"SLURM_JOB_NODELIST_HET_GROUP_0", "gpu[1-2]"},
                       {"SLURMD_NODENAME", "gpu2"},   {"SLURM_JOB_NODELIST_HET_GROUP_1", "cpu[1-2]"}};
const Environment sbatch_script{{"SLURM_JOB_ID", "14"},
                                {"SLURM_PROCID", "0"},
                                {"SLURM_NTASKS", "4"},
                                {"SLURM_LOCALID", "0"},
                                {"SLURM_JOB_NODELIST", "n[1-4]"}};

struct Case {
  const char* what;
  Environment environment;
  const char* launcher;
  int rank, size, local_rank;
  const char* address;
  bool port_shared;
};

TEST(LaunchEnvironment, WhatNamedTheMasterIsKnown) {
  const Environment address{{"FABRING_MASTER_ADDR", "n7"}};
  const std::pair<Environment, const char*> cases[] = {{torchrun, "MASTER_ADDR"},
                                                       {srun, "SLURM_STEP_NODELIST"},
                                                       {torchrun + address, "FABRING_MASTER_ADDR"},
                                                       {srun + address, "FABRING_MASTER_ADDR"}};
  for (const auto& [environment, name] : cases) {
    auto resolved = resolve_config(environment, {});
    ASSERT_TRUE(resolved && resolved->launch) << name;
    EXPECT_EQ(resolved->config.master_named_by, name);
  }
}

TEST(LaunchEnvironment, EveryLauncherIsUnderstood) {
  const Environment own{{"FABRING_RANK", "1"}, {"FABRING_WORLD_SIZE", "2"}, {"FABRING_MASTER_ADDR", "h"}};
  const Environment address{{"FABRING_MASTER_ADDR", "n7"}};
  const Case cases[] = {
      {"own names", own, "fabring", 1, 2, -1, "h", false},
      {"own names win over torchrun's", torchrun + own, "fabring", 1, 2, -1, "h", false},
      {"own names win inside a Slurm step", srun + own, "fabring", 1, 2, -1, "h", false},
      {"a world of one needs no address",
       {{"FABRING_RANK", "0"}, {"FABRING_WORLD_SIZE", "1"}},
       "fabring",
       0,
       1,
       -1,
       "127.0.0.1",
       false},
      {"torchrun", torchrun, "torchrun", 3, 4, 1, "n0", true},
      {"PyTorchJob: pods, no LOCAL_RANK",
       {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "m-0"}, {"MASTER_PORT", "23456"}},
       "torchrun",
       1,
       2,
       -1,
       "m-0",
       true},
      {"torchrun with our address", torchrun + address, "torchrun", 3, 4, 1, "n7", true},
      {"mpirun on one host", mpirun_one_host, "Open MPI", 2, 5, 0, "127.0.0.1", true},
      {"mpirun -x FABRING_MASTER_ADDR", mpirun_two_hosts + address, "Open MPI", 2, 5, 0, "n7", true},
      {"hydra on one host", hydra_one_host, "PMI", 2, 4, 0, "127.0.0.1", true},
      {"hydra -genv FABRING_MASTER_ADDR", hydra_two_hosts + address, "PMI", 2, 4, 0, "n7", false},
      {"srun", srun, "Slurm", 2, 4, 1, "n3", true},
      {"srun on one node", srun + Environment{{"SLURM_STEP_NUM_NODES", "1"}, {"SLURM_STEP_NODELIST", "n3"}}, "Slurm", 2,
       4, 1, "127.0.0.1", true},
      {"srun --mpi=pmi2",
       srun + Environment{{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}, {"PMI_FD", "3"}, {"PMI_JOBID", "14.0"}}, "Slurm", 2, 4,
       1, "n3", true},
      {"a heterogeneous step: its first component counts", het_step, "Slurm", 2, 4, 1, "gpu1", true},
      {"rank 0 of a heterogeneous step",
       het_step +
           Environment{
               {"SLURM_PROCID", "0"}, {"SLURM_NODEID", "0"}, {"SLURM_LOCALID", "0"}, {"SLURMD_NODENAME", "gpu1"}},
       "Slurm", 0, 4, 0, "gpu1", true},
      {"a step of the second component", het_step + Environment{{"SLURM_STEP_NODELIST", "cpu[1-2]"}}, "Slurm", 2, 4, 1,
       "cpu1", true},
      {"srun --mpi=pmix", srun + Environment{{"PMIX_RANK", "2"}, {"PMIX_NAMESPACE", "slurm.pmix.14.0"}}, "Slurm", 2, 4,
       1, "n3", true},
      {"mpirun in sbatch, on the script's node", sbatch_script + mpirun_one_host, "Open MPI", 2, 5, 0, "127.0.0.1",
       true},
      {"mpirun in sbatch, on a remote node: the step counts daemons",
       srun + Environment{{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_NTASKS", "1"}} +
           mpirun_two_hosts + address,
       "Open MPI", 2, 5, 0, "n7", true},
      {"hydra in sbatch: SLURM_PROCID is the node's index",
       srun + Environment{{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}} + hydra_two_hosts + address, "PMI", 2,
       4, 0, "n7", false},
      {"torchrun under srun", srun + Environment{{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}} + torchrun,
       "torchrun", 3, 4, 1, "n0", true},
      {"an indexed Kubernetes job told its size",
       {{"JOB_COMPLETION_INDEX", "1"}, {"FABRING_WORLD_SIZE", "3"}, {"FABRING_MASTER_ADDR", "j-0.svc"}},
       "Kubernetes",
       1,
       3,
       -1,
       "j-0.svc",
       false},
      {"SageMaker: the place in the list counts",
       {{"SM_HOSTS", R"(["algo-1", "algo-10","algo-2"])"}, {"SM_CURRENT_HOST", "algo-2"}},
       "SageMaker",
       2,
       3,
       0,
       "algo-1",
       false},
  };
  for (const Case& c : cases) {
    auto info = launch(c.environment);
    ASSERT_TRUE(info) << c.what << ": " << info.error().message();
    EXPECT_EQ(info->launcher, c.launcher) << c.what;
    EXPECT_EQ(info->rank, c.rank) << c.what;
    EXPECT_EQ(info->world_size, c.size) << c.what;
    EXPECT_EQ(info->local_rank, c.local_rank) << c.what;
    EXPECT_EQ(info->master_addr, c.address) << c.what;
    EXPECT_EQ(info->master_port_shared, c.port_shared) << c.what;
    EXPECT_GT(info->master_port, 0) << c.what;
    EXPECT_LT(info->master_port, 32768) << c.what;
    EXPECT_TRUE(info->sources.contains("FABRING_RANK")) << c.what;
  }
}

struct Refusal {
  const char* what;
  Environment environment;
  std::vector<const char*> words;
};

TEST(LaunchEnvironment, WhatCannotBeUnderstoodIsRefusedWithWhatToDo) {
  const Refusal cases[] = {
      {"nothing at all", {{"HOME", "/"}}, {"no rank", "fabring run"}},
      {"a rank without a size", {{"FABRING_RANK", "0"}}, {"FABRING_WORLD_SIZE is missing", "only FABRING_RANK"}},
      {"a size without a rank", {{"FABRING_WORLD_SIZE", "2"}}, {"FABRING_RANK is missing"}},
      {"no address",
       {{"FABRING_RANK", "0"}, {"FABRING_WORLD_SIZE", "2"}},
       {"rank 0 of 2", "FABRING_MASTER_ADDR is missing"}},
      {"a rank beyond the size",
       {{"FABRING_RANK", "2"}, {"FABRING_WORLD_SIZE", "2"}, {"FABRING_MASTER_ADDR", "h"}},
       {"rank 2", "out of range", "0 to 1"}},
      {"torchrun's rank is no number", torchrun + Environment{{"RANK", "three"}}, {"torchrun", "RANK=three"}},
      {"torchrun's size is negative", torchrun + Environment{{"WORLD_SIZE", "-4"}}, {"WORLD_SIZE=-4"}},
      {"torchrun's port is too large", torchrun + Environment{{"MASTER_PORT", "295000"}}, {"MASTER_PORT=295000"}},
      {"torchrun's port is that of a Kubernetes Service named master",
       torchrun + Environment{{"MASTER_PORT", "tcp://10.0.0.1:23456"}},
       {"MASTER_PORT=tcp://10.0.0.1:23456: ", "Service named 'master'", "enableServiceLinks: false",
        "set MASTER_PORT"}},
      {"RANK and WORLD_SIZE without MASTER_ADDR", {{"RANK", "0"}, {"WORLD_SIZE", "2"}}, {"MASTER_ADDR is not"}},
      {"RANK and MASTER_ADDR without WORLD_SIZE", {{"RANK", "0"}, {"MASTER_ADDR", "h"}}, {"WORLD_SIZE is not"}},
      {"RANK alone", {{"RANK", "0"}}, {"no rank: RANK=0 is set but WORLD_SIZE is not", "FABRING_WORLD_SIZE"}},
      {"WORLD_SIZE alone", {{"WORLD_SIZE", "2"}}, {"WORLD_SIZE=2 is set but RANK is not"}},
      {"Kubeflow's TrainJob, started without torchrun",
       {{"PET_NNODES", "2"}, {"PET_NODE_RANK", "1"}, {"RANK", "0"}},
       {"PET_* are torchrun's arguments (PET_NNODES, PET_NODE_RANK are set): start the program with torchrun"}},
      {"mpirun over two hosts",
       mpirun_two_hosts,
       {"rank 2 of 5 under Open MPI", "no master address", "-x FABRING_MASTER_ADDR"}},
      {"SageMaker's mpirun over two hosts",
       mpirun_two_hosts + Environment{{"SM_HOSTS", R"(["algo-1","algo-2"])"}, {"SM_CURRENT_HOST", "algo-2"}},
       {"rank 2 of 5 under Open MPI", "custom_mpi_options", "\"-x FABRING_MASTER_ADDR=algo-1\""}},
      {"hydra over two hosts", hydra_two_hosts, {"rank 2 of 4 under PMI", "-genv FABRING_MASTER_ADDR"}},
      {"hydra -pmi-port", {{"PMI_ID", "1"}, {"PMI_PORT", "h:1"}}, {"-pmi-port"}},
      {"PMIx alone", {{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "x"}}, {"PMIX_RANK=1", "FABRING_WORLD_SIZE"}},
      {"a batch script without srun", sbatch_script, {"Slurm job 14", "start with srun"}},
      {"a step with a broken node list", srun + Environment{{"SLURM_STEP_NODELIST", "n[3-"}}, {"SLURM_STEP_NODELIST"}},
      {"a step without a node list", srun + Environment{{"SLURM_STEP_NODELIST", ""}}, {"SLURM_STEP_NODELIST"}},
      {"rank 0 on another node (-m arbitrary)",
       srun + Environment{{"SLURM_PROCID", "0"}, {"SLURM_NODEID", "2"}},
       {"-m arbitrary"}},
      {"another rank where rank 0 should be",
       srun + Environment{{"SLURM_NODEID", "0"}, {"SLURM_LOCALID", "0"}},
       {"-m arbitrary"}},
      {"rank 0 not where the sorted list of a heterogeneous step begins",
       srun + Environment{{"SLURM_PROCID", "0"},
                          {"SLURM_NODEID", "0"},
                          {"SLURM_LOCALID", "0"},
                          {"SLURMD_NODENAME", "gpu1"},
                          {"SLURM_STEP_NODELIST", "cpu[1-2],gpu[1-2]"}},
       {"rank 0 is on gpu1", "meet on cpu1", "--het-group", "set FABRING_MASTER_ADDR to the host of rank 0"}},
      {"rank 0 not on the first host of the first component",
       het_step + Environment{{"SLURM_PROCID", "0"}, {"SLURM_NODEID", "0"}, {"SLURM_LOCALID", "0"}},
       {"rank 0 is on gpu2", "meet on gpu1", "SLURM_JOB_NODELIST_HET_GROUP_0=gpu[1-2]"}},
      {"a Kubernetes index alone", {{"JOB_COMPLETION_INDEX", "1"}}, {"JOB_COMPLETION_INDEX=1", "FABRING_WORLD_SIZE"}},
      {"torchrun's arguments without torchrun", {{"JOB_COMPLETION_INDEX", "1"}, {"PET_NNODES", "2"}}, {"torchrun"}},
      {"SageMaker: a host not in the list",
       {{"SM_HOSTS", R"(["a"])"}, {"SM_CURRENT_HOST", "b"}},
       {"SM_CURRENT_HOST=b"}},
      {"SageMaker: no list", {{"SM_HOSTS", "a,b"}, {"SM_CURRENT_HOST", "b"}}, {"SM_HOSTS=a,b"}},
  };
  for (const Refusal& c : cases) {
    auto info = launch(c.environment);
    ASSERT_FALSE(info) << c.what;
    EXPECT_EQ(info.error().code(), ErrorCode::invalid_argument) << c.what;
    for (const char* word : c.words) EXPECT_THAT(info.error().message(), HasSubstr(word)) << c.what;
  }
}

TEST(LaunchEnvironment, AGivenPortIsTakenExactlyAndAMissingOneHasADefault) {
  const Environment own{{"FABRING_RANK", "1"}, {"FABRING_WORLD_SIZE", "2"}, {"FABRING_MASTER_ADDR", "h"}};
  EXPECT_EQ(launch(own)->master_port, default_master_port);
  auto given = launch(torchrun + Environment{{"FABRING_MASTER_PORT", "4000"}});
  EXPECT_EQ(given->master_port, 4000);
  EXPECT_FALSE(given->master_port_shared);
}

TEST(LaunchEnvironment, JobsAreToldApartAndTheirRanksAreNot) {
  // Two steps of one job; two ranks of one step.
  EXPECT_NE(launch(srun)->job_id, launch(srun + Environment{{"SLURM_STEP_ID", "1"}})->job_id);
  EXPECT_NE(launch(srun)->master_port, launch(srun + Environment{{"SLURM_STEP_ID", "1"}})->master_port);
  EXPECT_EQ(launch(srun)->job_id, launch(srun + Environment{{"SLURM_PROCID", "3"}, {"SLURM_LOCALID", "2"}})->job_id);
  // The restart count differs between the nodes of one incarnation.
  EXPECT_EQ(launch(torchrun + Environment{{"TORCHELASTIC_RESTART_COUNT", "0"}})->job_id,
            launch(torchrun + Environment{{"TORCHELASTIC_RESTART_COUNT", "1"}})->job_id);
  EXPECT_NE(launch(mpirun_one_host)->job_id, launch(mpirun_one_host + Environment{{"PMIX_NAMESPACE", "99"}})->job_id);
  // Hydra gives no identity: its process does.
  EXPECT_NE(launch(hydra_one_host, {"100.7"})->job_id, launch(hydra_one_host, {"200.7"})->job_id);
}

TEST(LaunchEnvironment, ReservedPortsOfAStepAreUsed) {
  EXPECT_EQ(launch(srun + Environment{{"SLURM_STEP_RESV_PORTS", "12001-12002"}})->master_port, 12001);
  EXPECT_FALSE(launch(srun + Environment{{"SLURM_STEP_RESV_PORTS", "many"}}));
}

TEST(LaunchEnvironment, DerivedPortsAreBelowTheEphemeralRange) {
  for (int job = 0; job < 1000; ++job) {
    const int port = derived_port("slurm." + std::to_string(job));
    EXPECT_GE(port, 20000);
    EXPECT_LT(port, 29000);
  }
  EXPECT_EQ(derived_port("slurm.14.0."), derived_port("slurm.14.0."));
}

TEST(HostList, ExpandsAsSlurmDoes) {
  const std::pair<const char*, std::vector<std::string>> cases[] = {
      {"n0", {"n0"}},
      {"a[01-03,7],b2", {"a01", "a02", "a03", "a7", "b2"}},
      {"x[1-2]y[3-4]", {"x1y3", "x1y4", "x2y3", "x2y4"}},
      {"h[009-011]-ib", {"h009-ib", "h010-ib", "h011-ib"}},
      {"n1,n1", {"n1", "n1"}},
      {"a.b-c_d", {"a.b-c_d"}},
  };
  for (const auto& [text, expected] : cases) {
    auto hosts = expand_host_list(text, 100);
    ASSERT_TRUE(hosts) << text << ": " << hosts.error().message();
    EXPECT_EQ(*hosts, expected) << text;
  }
}

TEST(HostList, RefusesWhatIsMalformed) {
  for (const char* text : {"", ",", "a,,b", "a,", "a[", "a[1", "a]1", "a[]", "a[3-1]", "a[x]", "a[1-]", "a[-1]", "a b",
                           "a\n", "a[1-99999999999]"})
    EXPECT_FALSE(expand_host_list(text, 100)) << text;
}

TEST(HostList, IsBoundedWhateverTheTextSays) {
  auto hosts = expand_host_list("a[0-999999999]b[0-999999999]c[0-999999999]", 5);
  ASSERT_TRUE(hosts);
  EXPECT_EQ(hosts->size(), 5U);
  EXPECT_EQ(hosts->front(), "a0b0c0");
}

TEST(ResolveConfig, SaysWhereEachValueCameFrom) {
  auto resolved = resolve_config(torchrun + Environment{{"FABRING_TIMEOUT", "7s"}, {"FABRING_MASTER_ADDR", "h"}}, {});
  ASSERT_TRUE(resolved);
  ASSERT_TRUE(resolved->launch.ok());
  EXPECT_EQ(resolved->config.rank, 3);
  EXPECT_EQ(resolved->config.master_addr, "h");
  EXPECT_EQ(resolved->sources["FABRING_RANK"], "torchrun RANK");
  EXPECT_EQ(resolved->sources["FABRING_TIMEOUT"], "environment FABRING_TIMEOUT");
  EXPECT_EQ(resolved->sources["FABRING_MASTER_ADDR"], "environment FABRING_MASTER_ADDR");
  EXPECT_FALSE(resolved->sources.contains("FABRING_LOG"));
}

}  // namespace
}  // namespace fabring

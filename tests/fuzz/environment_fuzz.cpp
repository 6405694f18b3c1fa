// The environment that a launcher left, and every setting in it: NAME=VALUE, one a line.

#include "runtime/bootstrap/environment_config.hpp"
#include "tests/fuzz/targets.hpp"

namespace fabring::fuzz::environment {
namespace {

Environment environment_of(std::string_view text) {
  Environment environment;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::size_t equals = line.find('=');
    if (equals != std::string_view::npos) environment[std::string(line.substr(0, equals))] = line.substr(equals + 1);
  }
  return environment;
}

void is_sound(const Config& config) {
  require(config.rank >= -1 && config.rank < (1 << 20) && config.world_size >= -1 && config.world_size <= (1 << 20),
          "ranks and worlds are in their bounds");
  require(config.master_port >= 0 && config.master_port <= 65535, "so is the port");
  for (const Setting& row : settings()) {
    const std::string shown = row.show(config);
    if (shown.empty()) continue;
    Config again;
    if (const Status status = apply_setting(row, shown, again); status.ok())
      require(row.show(again) == shown, "a setting that is shown and read stays what it is");
  }
}

}  // namespace

void run(std::string_view input) {
  const Environment environment = environment_of(input);
  const auto resolved = resolve_config(environment, {"hydra 4711"});
  if (!resolved) {
    require(resolved.error().code() == ErrorCode::invalid_argument, "what is refused is an invalid argument");
    return require(!resolved.error().message().empty(), "and says why");
  }
  is_sound(resolved->config);
  if (!resolved->launch.ok()) return require(!resolved->launch.message().empty(), "a missing rank has a reason");
  require(resolved->config.rank >= 0 && resolved->config.rank < resolved->config.world_size, "a rank is of its world");
}

Seeds seeds() {
  Seeds all{
      "FABRING_RANK=1\nFABRING_WORLD_SIZE=4\nFABRING_MASTER_ADDR=10.0.0.1\nFABRING_MASTER_PORT=29431\n",
      "RANK=1\nWORLD_SIZE=4\nLOCAL_RANK=1\nMASTER_ADDR=a\nMASTER_PORT=29500\nTORCHELASTIC_RUN_ID=none\n",
      "OMPI_COMM_WORLD_RANK=0\nOMPI_COMM_WORLD_SIZE=2\nOMPI_COMM_WORLD_LOCAL_SIZE=2\nOMPI_COMM_WORLD_LOCAL_RANK=0\n"
      "PMIX_NAMESPACE=1234\n",
      "PMI_RANK=0\nPMI_SIZE=2\nMPI_LOCALNRANKS=2\nMPI_LOCALRANKID=0\n",
      "PMIX_RANK=1\nPMIX_NAMESPACE=a\n",
      "SLURM_JOB_ID=7\nSLURM_STEP_ID=0\nSLURM_STEP_NUM_TASKS=4\nSLURM_PROCID=0\nSLURM_LOCALID=0\nSLURM_NODEID=0\n"
      "SLURM_STEP_NUM_NODES=2\nSLURM_STEP_NODELIST=n[01-02]\nSLURM_STEP_RESV_PORTS=12000-12003\n",
      "JOB_COMPLETION_INDEX=1\nFABRING_WORLD_SIZE=2\nFABRING_MASTER_ADDR=a\n",
      "SM_HOSTS=[\"algo-1\",\"algo-2\"]\nSM_CURRENT_HOST=algo-2\n"};
  std::string every;  // with what it is by default
  for (const Setting& row : settings()) {
    const std::string value = default_text(row);
    all.push_back(std::string(row.name) + "=" + value + "\n");
    every += all.back();
  }
  all.push_back(every);
  return all;
}

}  // namespace fabring::fuzz::environment

#include "tools/fabring/own_ranks.hpp"

#include <unistd.h>

#include "runtime/base/settings.hpp"
#include "tools/fabring/local_job.hpp"

namespace fabring::tools {

Result<int> run_own_ranks(const std::vector<std::string>& arguments, int ranks, const std::string& name, int nodes) {
  std::string self(4096, '\0');
  const ssize_t length = ::readlink("/proc/self/exe", self.data(), self.size());
  if (length <= 0) return Status(ErrorCode::unavailable, "cannot find the program's own file (/proc/self/exe)");
  self.resize(static_cast<std::size_t>(length));
  JobOptions job;
  job.ranks = ranks;
  job.nodes = nodes;
  job.name = name;
  job.command = {self};
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "-n" || argument == "--split-nodes") {
      ++i;
    } else if (!argument.starts_with("-n") && !argument.starts_with("--split-nodes=")) {
      job.command.push_back(argument);
    }
  }
  return run_local_job(job, process_environment());
}

}  // namespace fabring::tools

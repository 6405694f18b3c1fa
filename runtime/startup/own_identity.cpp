#include "runtime/startup/own_identity.hpp"

#include <unistd.h>

#include <algorithm>

#include "fabring/version.hpp"
#include "runtime/startup/agreed_lengths.hpp"
#include "topology/cpus.hpp"
#include "topology/host_identity.hpp"

namespace fabring {

Identity own_identity(const Config& config, const OwnGpus& gpus) {
  Identity own;
  own.version = FABRING_VERSION;
  own.host = host_name();
  own.pid = static_cast<std::uint32_t>(::getpid());
  own.fingerprint = host_fingerprint();
  own.host_id = config.host_id;
  own.transports = config.transport;
  own.wanted_provider = config.provider;
  own.algorithm = config.algorithm;
  own.segment_bytes = config.segment_bytes;
  own.depth = static_cast<std::uint32_t>(config.depth);
  own.scratch_bytes = config.scratch_bytes;
  own.reproducible = config.reproducible;
  own.wire_type = config.wire_type ? name(*config.wire_type) : "off";
  own.machine = config.machine;
  const std::vector<int> cpus = affinity_cpus();
  own.cores = static_cast<std::uint32_t>(std::max<std::size_t>(cpus.size(), 1));
  own.cpus = show_cpu_list(cpus);
  own.quotas = own_cpu_quotas();
  own.gpus = gpus.of_host;
  const GpuUse use = gpus.begun ? GpuUse::begun : gpus.of_host ? GpuUse::possible : GpuUse::none;
  own.lent_bytes = longest_lent(config, use);
  own.lends = would_lend(config, use, gpus.kernels);
  return own;
}

}  // namespace fabring

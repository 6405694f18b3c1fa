#pragma once
// Identity: what every rank tells all others at start-up, before anything is opened: build, host, settings that must
// agree.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fabring/status.hpp"
#include "fabring/types.hpp"
#include "topology/cpu_quota.hpp"

namespace fabring {

struct Identity {
  std::string version;  ///< FABRING_VERSION
  std::string host;
  std::uint32_t pid = 0;
  std::string fingerprint;          ///< which host: boot id and network namespace
  bool apart = false;               ///< where the ranks met some came from another host, whatever the fingerprints say
  std::string host_id;              ///< FABRING_HOST_ID
  std::string transports;           ///< what was asked for: "auto", "fabric,tcp"
  std::vector<std::string> usable;  ///< transports that can run here, in order of preference
  std::string unusable;             ///< why others cannot, for people
  std::string provider;             ///< of libfabric, where `usable` has it: "efa", "tcp" (native), another's name
  std::string wanted_provider;      ///< FABRING_PROVIDER; may differ
  /// Its system's congestion control paces what ranks of a host send each other by sockets, and the tcp transport has
  /// another for that, which libfabric's providers cannot have.
  bool paced_loopback = false;
  bool networks_probed = false;  ///< `usable` tells of networks too, not only of shared memory
  std::string algorithm;
  std::uint64_t segment_bytes = 0;
  std::uint32_t depth = 0;
  std::uint64_t scratch_bytes = 0;  ///< FABRING_SCRATCH_BYTES; may differ
  bool reproducible = false;
  std::string wire_type;            ///< FABRING_WIRE_TYPE: "off", "bfloat16"
  std::string machine;              ///< FABRING_MACHINE
  std::string described_machine;    ///< the file that names, as JSON; rank 0's
  std::uint32_t link_megabits = 0;  ///< of the cards that large messages take, together; 0: not known
  std::uint8_t rails = 1;           ///< how many such cards its host has
  std::uint32_t cores = 0;          ///< of its affinity; 0: not known
  std::string cpus;                 ///< its affinity: "0-3,8"
  std::vector<CpuQuota> quotas;     ///< of its control groups
  bool gpus = false;                ///< its host has a driver of GPUs, and it was built to use them
  /// The longest message that it would lend to ranks of its host, or be lent, in memory of GPUs; 0: none.
  std::uint64_t lent_bytes = 0;
  bool lends = false;  ///< it had begun to use a GPU, and would lend its memory to ranks of its host

  void cannot_use(const std::string& transport, std::string_view why);

  std::string encode() const;
  static Result<Identity> decode(std::string_view bytes);
};

/// Do all ranks fit together? Errors: mismatch, naming rank, host, both values.
Status compare(const std::vector<Identity>& ranks);

bool on_one_host(const std::vector<Identity>& ranks);

}  // namespace fabring

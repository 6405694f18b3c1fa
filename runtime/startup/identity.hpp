#pragma once
// Identity: what every rank tells all others at start-up, before anything is opened: build, host, settings that must
// agree.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fabring/config.hpp"
#include "fabring/status.hpp"

namespace fabring {

struct Identity {
  std::string version;  ///< FABRING_VERSION
  std::string host;
  std::uint32_t pid = 0;
  std::string fingerprint;          ///< which host: boot id and network namespace
  std::string host_id;              ///< FABRING_HOST_ID
  std::string transports;           ///< what was asked for: "auto", "fabric,tcp"
  std::vector<std::string> usable;  ///< transports that can run here, in order of preference
  std::string unusable;             ///< why others cannot, for people
  std::string provider;             ///< of libfabric, where `usable` has it: "efa", "tcp" (native), another's name
  bool networks_probed = false;     ///< `usable` tells of networks too, not only of shared memory
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
  std::uint32_t cores = 0;          ///< that its processes may use
  std::string cpus;                 ///< its affinity: "0-3,8"
  bool gpus = false;                ///< its host has a driver of GPUs, and it was built to use them
  /// The longest message that it would lend to ranks of its host, or be lent, in memory of GPUs; 0: none.
  std::uint64_t lent_bytes = 0;
  bool lends = false;  ///< it had begun to use a GPU, and would lend its memory to ranks of its host

  std::string encode() const;
  static Result<Identity> decode(std::string_view bytes);
};

/// Do all ranks fit together? Errors: mismatch, naming rank, host, both values.
Status compare(const std::vector<Identity>& ranks);

/// May both run on one and the same processor?
bool share_processors(const Identity& a, const Identity& b);

/// Ranks of this one's machine, in other containers too, that may run on a processor that it may run on, itself among
/// them.
int ranks_beside(const std::vector<Identity>& ranks, Rank self);

bool on_one_host(const std::vector<Identity>& ranks);

/// The processors that rank 0 may use, less the share of ranks in other containers of its machine; 0: not known.
std::uint32_t cores_of_host(const std::vector<Identity>& ranks);

/// FABRING_SEGMENT_BYTES, or, if that is not set and a rank has little FABRING_SCRATCH_BYTES, what fits there: a tile
/// may need a segment from every rank, and as much again for what it sends. 0: the usual one.
std::size_t segment_of(const std::vector<Identity>& ranks);

/// The least scratch memory of all ranks: FABRING_SCRATCH_BYTES, or what it is where that is not set.
std::size_t least_scratch_of(const std::vector<Identity>& ranks);

/// The longest message between hosts whose processors do not copy (message_length.hpp): the slots of one operation take
/// half of the least FABRING_SCRATCH_BYTES of all ranks at most. 0: one host, or FABRING_SEGMENT_BYTES is set.
std::size_t long_segment_of(const std::vector<Identity>& ranks);

enum class GpuUse {
  none,      ///< its host has none, or it was built without
  possible,  ///< its host has GPUs, and it may begin to use one later, or never
  begun,
};

/// The longest message that a rank should exchange with others of its host (lent_bytes): of GPU memory each costs a
/// launch or two, however long it is. Where it may be the host's memory after all, it is one that this loses little by.
/// It fits FABRING_SCRATCH_BYTES as in segment_of(), and FABRING_STAGING_BYTES: a tile may need its input, its output
/// and what comes beside them. 0: the usual one.
std::size_t longest_lent(const Config& config, GpuUse use);

/// What all ranks would; 0: not all would, or they are not of one node, or FABRING_SEGMENT_BYTES is set.
std::size_t lent_segment_of(const std::vector<Identity>& ranks, const std::vector<int>& node_of);

/// Identity::lends. Without kernels what is reduced goes through the host after all, so nothing is gained there.
bool would_lend(const Config& config, GpuUse use, bool has_kernels);

/// Did every rank begin with a GPU in use, to lend its memory to the others, all of one node?
bool all_lend(const std::vector<Identity>& ranks, const std::vector<int>& node_of);

/// The longest message that is sent before it is asked for where all_lend(): only what is asked for can be lent. 0: as
/// elsewhere, also where FABRING_SEGMENT_BYTES is set.
std::size_t unasked_limit_of(const std::vector<Identity>& ranks, const std::vector<int>& node_of);

/// First network of rank 0's list that every rank can use. Errors: unavailable, saying which rank cannot use what and
/// why.
Result<std::string> common_network(const std::vector<Identity>& ranks);

}  // namespace fabring

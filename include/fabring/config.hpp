#pragma once
// Config: every setting as a plain field. Config::from_environment() reads the environment once; a program may build
// one by hand instead. The names, units, defaults and paragraphs are in one table, runtime/base/settings_table.cpp;
// `fabring settings` and the table of docs/settings.md are printed from it.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fabring/export.hpp"
#include "fabring/log.hpp"
#include "fabring/status.hpp"
#include "fabring/types.hpp"

namespace fabring {

struct Config {
  // Who am I, and where do we meet.
  int rank = -1;            ///< FABRING_RANK
  int world_size = -1;      ///< FABRING_WORLD_SIZE
  int local_rank = -1;      ///< FABRING_LOCAL_RANK; a hint, never trusted
  std::string master_addr;  ///< FABRING_MASTER_ADDR: name or address where rank 0 can be reached
  /// What said so: "FABRING_MASTER_ADDR", "MASTER_ADDR", "SLURM_STEP_NODELIST"; for messages.
  std::string master_named_by = "FABRING_MASTER_ADDR";
  int master_port = 0;  ///< FABRING_MASTER_PORT; 0: 29431
  /// The port belongs to somebody else's store (torchrun's agent) or may: meet at the first of the following ports
  /// that is ours. False when FABRING_MASTER_PORT named it: then exactly that port, or an error.
  bool master_port_shared = false;
  std::string job_id;       ///< FABRING_JOB_ID: ranks of other jobs are turned away
  std::string host_id;      ///< FABRING_HOST_ID: splits a host into several nodes
  std::string secret_file;  ///< FABRING_SECRET_FILE: shared secret; connections prove it (HMAC-SHA256, README "Trust")

  // Which way.
  std::string interface;           ///< FABRING_INTERFACE: "eth0,eth1" or "^docker0"; empty: chosen
  int rails = 0;                   ///< FABRING_RAILS: network cards of a rank, at most; 0: chosen
  std::string transport = "auto";  ///< FABRING_TRANSPORT: auto (shm,fabric,tcp), or what may be used of these
  std::string provider = "auto";   ///< FABRING_PROVIDER: libfabric provider: auto, efa, tcp (native), rxm
  std::string algorithm = "auto";  ///< FABRING_ALGORITHM: auto, ring, hierarchical, recursive_doubling, direct, ...
  std::string machine = "auto";    ///< FABRING_MACHINE: what algorithms are priced for
  bool reproducible = false;       ///< FABRING_REPRODUCIBLE: results independent of cutting, transport and nodes
  /// FABRING_WIRE_TYPE: bfloat16 or float16: as what float32 allreduces that add travel; none: as they are
  std::optional<DataType> wire_type = {};
  int sockets_per_peer = 0;  ///< FABRING_SOCKETS_PER_PEER: tcp; 0: chosen
  std::string congestion_control =
      "auto";  ///< FABRING_CONGESTION_CONTROL: tcp; auto: cubic on loopback if allowed, else system's

  // How much.
  std::size_t segment_bytes = 0;  ///< FABRING_SEGMENT_BYTES: largest block in flight; 0: chosen
  int depth = 0;                  ///< FABRING_DEPTH: tiles in flight per operation; 0: chosen
  std::size_t scratch_bytes = 0;  ///< FABRING_SCRATCH_BYTES: budget of an engine's own memory; 0: default (32 MiB)
  std::size_t mapped_bytes = 0;   ///< FABRING_MAPPED_BYTES: limit of Engine::allocate; 0: this host's memory
  std::size_t staging_bytes =
      0;  ///< FABRING_STAGING_BYTES: budget for pinned memory that GPU memory passes through; 0: 64 MiB
  std::string gpu_path = "auto";  ///< FABRING_GPU_PATH: staged: GPU memory always takes the way through the host

  // How long.
  std::chrono::milliseconds rendezvous_timeout{300'000};  ///< FABRING_RENDEZVOUS_TIMEOUT: ranks to meet
  std::chrono::milliseconds timeout{1'800'000};           ///< FABRING_TIMEOUT: one operation
  std::chrono::milliseconds silence_timeout{30'000};      ///< FABRING_SILENCE_TIMEOUT: a silent rank is given up
  std::chrono::milliseconds leave_timeout{10'000};        ///< FABRING_LEAVE_TIMEOUT: waiting for others when leaving

  // Words.
  std::string log = "warning";  ///< FABRING_LOG: none, error, warning, info, debug
  LogSink log_sink = {};        ///< who gets the log; empty: stderr
  bool explain = false;         ///< FABRING_EXPLAIN: say why this transport, interface, algorithm
  bool status = true;           ///< FABRING_STATUS: answer `fabring status` of the same user

  /// Reads FABRING_* and the launchers' names from the process environment. An unknown FABRING_* name, a bad value or
  /// a missing rank is an invalid_argument that says which, and the nearest known name.
  FABRING_API static Result<Config> from_environment();
};

}  // namespace fabring

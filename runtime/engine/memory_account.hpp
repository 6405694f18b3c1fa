#pragma once
// MemoryAccount: what an engine holds of the host's memory and what for, as a value: for the start-up report and for
// `fabring status`. Not in it: sockets' buffers in the kernel, what libfabric and CUDA have, tables of small things.

#include <cstdint>
#include <string>

namespace fabring {

/// All in bytes, as they were taken: pages that were never touched may not exist.
struct MemoryAccount {
  std::uint32_t peers = 0;
  // For the connections, from the start to the end.
  std::uint64_t channels = 0;  ///< of shared memory, this rank's half of each pair; buffers of the transport
  std::uint64_t posted = 0;    ///< for what peers send unasked
  std::uint64_t landings = 0;  ///< likewise, for what is longer
  // As it is needed.
  std::uint64_t outgoing = 0;  ///< short messages on their way, and kept for the next
  std::uint64_t scratch = 0;   ///< lent to operations, and kept for the next
  std::uint64_t pinned = 0;    ///< likewise, for what is in memory of a GPU
  std::uint64_t copies = 0;    ///< of the input of each alltoall in place, as long as a call has it
  std::uint64_t mapped = 0;    ///< the program's own: Engine::allocate
  // Limits.
  std::uint64_t scratch_lent = 0;   ///< of `scratch`
  std::uint64_t scratch_most = 0;   ///< the most that `scratch` was
  std::uint64_t scratch_limit = 0;  ///< but for one least for each communicator (docs/memory.md)
  std::uint64_t pinned_limit = 0;

  std::uint64_t connections() const { return channels + posted + landings; }
  /// Fabring's own.
  std::uint64_t held() const { return connections() + outgoing + scratch + pinned + copies; }
};

/// "4.0 MiB held: for 3 peers 2.0 MiB (posted 2.0 MiB), ..."; nothing is said of what is 0.
std::string memory_text(const MemoryAccount& memory);

/// What of a budget is left for scratch: connections count as far as they take more than 64 KiB for each peer, up to a
/// half of it.
std::uint64_t scratch_beside(std::uint64_t budget, std::uint64_t connections, std::uint32_t peers);

}  // namespace fabring

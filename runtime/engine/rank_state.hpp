#pragma once
// RankState: what one rank is doing, as a value that travels: over the unix socket to `fabring status` and over the
// control plane to a rank that asks for the others. Taken by whoever drives, or by who asks while nobody does. Bounded;
// the decoder takes bytes from anybody.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fabring/types.hpp"
#include "runtime/engine/memory_account.hpp"

namespace fabring {

/// Messages of one operation between this rank and another.
struct PeerState {
  Rank rank = -1;  ///< in the world
  std::uint32_t sent = 0;
  std::uint32_t to_send = 0;  ///< in all
  std::uint32_t received = 0;
  std::uint32_t to_receive = 0;
  std::uint32_t in_flight = 0;        ///< blocks posted to the transport and not completed, both ways
  bool awaited = false;               ///< the operation cannot go on before this rank does something
  std::uint32_t sends_in_flight = 0;  ///< of `in_flight`, those on their way to this rank
};

enum class OperationPhase : std::uint8_t {
  queued,   ///< called; waits for room: scratch memory, or for operations before it
  running,  ///< begun
  waiting,  ///< a send or receive that waits for its other side
};

struct OperationState {
  std::uint64_t communicator = 0;  ///< CommunicatorState::id
  std::uint32_t sequence = 0;      ///< 0: not known yet
  std::string call;                ///< "allreduce(1048576 x float32, sum, ring)"
  std::uint64_t bytes = 0;
  OperationPhase phase = OperationPhase::queued;
  std::uint64_t begun_ms = 0;  ///< ago
  std::uint64_t stuck_ms = 0;  ///< no step has been done for so long
  std::uint32_t peer_count = 0;
  std::vector<PeerState> peers;  ///< those it waits for first; at most `most_peers`
};

struct CommunicatorState {
  std::uint64_t id = 0;
  std::string label;
  std::uint32_t members = 0;
  std::uint32_t called = 0;  ///< number of the last collective called on it; 0: none yet
  std::string last_call;     ///< what that was, if it has begun
  std::uint8_t failed = 0;   ///< ErrorCode; 0: it is fine
  std::string failure;
  bool shrunk = false;  ///< shrink() has made another of those who are left
};

enum class Driver : std::uint8_t {
  nobody,   ///< no thread is inside Fabring, none needs to be
  thread,   ///< a thread drives and answers
  unheard,  ///< a thread drives but does not come round: inside a reduction of the caller's, or the provider
};

struct RankState {
  static constexpr std::size_t most_operations = 12;
  static constexpr std::size_t most_communicators = 12;
  static constexpr std::size_t most_peers = 16;
  static constexpr std::size_t most_left_out = 256;

  Rank rank = -1;
  std::int32_t world = 0;
  std::string job_id;
  std::string version;
  std::string host;
  std::uint32_t pid = 0;
  std::uint64_t up_ms = 0;
  std::int64_t idle_ms = -1;  ///< since the last operation ended; -1: none has
  Driver driver = Driver::nobody;
  bool leaving = false;
  std::vector<Rank> left_out;            ///< by shrinks that this rank took part in, ascending
  std::uint64_t strangers = 0;           ///< connections turned away; of one that is unheard, by its control plane only
  std::optional<MemoryAccount> memory;   ///< of one that is heard
  std::uint32_t operation_count = 0;     ///< in all; those that are listed may be fewer
  std::uint32_t communicator_count = 0;  ///< likewise
  /// By age, the world first. Where there are too many: those that failed and were not shrunk, then those with
  /// operations that are listed.
  std::vector<CommunicatorState> communicators;
  std::vector<OperationState> operations;  ///< running, then waiting, then queued; of each the oldest first

  std::string encode() const;
  /// Nothing if it is no RankState; texts are fit to be shown.
  static std::optional<RankState> decode(std::string_view bytes);
};

}  // namespace fabring

#pragma once
// handshake(): the first bytes on every TCP connection of ours (rendezvous, control, data). A fixed-size hello each
// way, then a one-byte verdict each way, and, when a secret is set, a mutual HMAC-SHA256 challenge-response over both
// hellos, in which who connected proves first. Whoever does not know the job and its nonce is not told them. Nothing is
// allocated from a length the peer sent; there is a deadline; whoever does not speak it is a stranger, counted and
// dropped. A peer that does speak it but is wrong (other job, version, byte order, secret, incarnation) is told why,
// and both sides get the same typed error.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "fabring/status.hpp"
#include "fabring/types.hpp"
#include "runtime/base/net/net.hpp"

namespace fabring {

struct Config;

enum class Purpose : std::uint8_t { rendezvous = 1, control = 2, data = 3 };

struct HandshakeOptions {
  Purpose purpose = Purpose::data;
  bool initiator = false;  ///< the side that connected
  std::string job_id;
  std::uint64_t job_nonce = 0;  ///< 0 in the rendezvous: not known yet; else both must agree
  Rank self = 0;
  int world_size = 1;
  std::uint32_t lane = 0;  ///< which of several connections between two ranks
  std::string secret;      ///< empty: none; one side with and one without is an error on both
  std::chrono::nanoseconds limit = std::chrono::seconds(5);
};

/// Of this rank of the job that `config` describes. Made in one place, as a secret that is forgotten lets anybody in.
HandshakeOptions greeting_for(const Config& config, const std::string& secret, std::uint64_t job_nonce,
                              Purpose purpose);

struct PeerHello {
  Rank rank = -1;  ///< checked: 0 <= rank < world_size; of a refused peer: what it claims
  std::uint32_t lane = 0;
  std::uint32_t world_size = 0;
};

/// Why a peer that speaks our protocol is not acceptable; also its number on the wire, so only append.
enum class Refusal : std::uint8_t {
  none,
  version,
  byte_order,
  purpose,
  job,
  incarnation,  ///< same job, other nonce: a process of an earlier run
  world_size,
  rank,
  secret,
};

enum class HandshakeFailure : std::uint8_t {
  stranger,  ///< silent, cut off, or not our protocol: drop and count
  refused,   ///< our protocol but not acceptable: the Status says why
};

struct HandshakeResult {
  std::unique_ptr<net::Stream> stream;  ///< null on failure
  PeerHello peer;
  HandshakeFailure failure = HandshakeFailure::stranger;
  Refusal refusal = Refusal::none;
  net::SocketAddress remote;
  Status status;
};

/// Runs the handshake on a fresh connection; `done` is called once in the loop. Dropping the returned guard closes the
/// connection and `done` is never called.
std::shared_ptr<void> handshake(net::Loop& loop, std::unique_ptr<net::Stream> stream, const HandshakeOptions& options,
                                std::function<void(HandshakeResult)> done);

/// Reads a secret file: at least 16 bytes, at most 4 KiB, not readable by others (mode 0600 or 0400). Trailing newline
/// dropped.
Result<std::string> read_secret(const std::string& path);

}  // namespace fabring

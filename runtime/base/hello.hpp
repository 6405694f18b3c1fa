#pragma once
// Hello: the fixed 104 bytes with which every connection of ours begins, and what is wrong with a peer's. Pure; used by
// the handshake only.
//
//   0 magic (8)   8 wire version (2)  10 purpose (1)  11 flags (1)  12 byte-order mark (4, in the host's own order)
//  16 job nonce (8)  24 rank (4)  28 world size (4)  32 lane (4)  36 zero (4)  40 challenge (32)  72 SHA-256 of job id
//  (32)
//
// The first ten bytes stay as they are in every later version, so that versions can always tell each other apart.
//
// The nonce and the digest of the job are what a rank knows and a stranger does not, so they are withheld (zeros, and a
// flag) from a caller that has not shown them itself: it is told why it is refused and no more.

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/digest.hpp"
#include "runtime/base/handshake.hpp"

namespace fabring {

inline constexpr std::size_t hello_bytes = 104;
inline constexpr std::size_t hello_prefix_bytes = 10;  ///< magic and version
inline constexpr std::uint16_t wire_version = 16;

struct Hello {
  std::uint16_t version = wire_version;
  std::uint8_t purpose = 0;
  bool initiator = false;
  bool has_secret = false;
  bool withheld = false;        ///< no nonce and no job: of an acceptor that refuses
  bool same_byte_order = true;  ///< decoded: the mark read like ours
  std::uint64_t job_nonce = 0;
  Rank rank = -1;
  std::uint32_t world_size = 0;
  std::uint32_t lane = 0;
  std::array<unsigned char, 32> challenge{};
  Digest job{};
};

/// Error: internal if the random source or OpenSSL fails.
Result<Hello> make_hello(const HandshakeOptions& options);
std::string encode(const Hello& hello);
/// The same without what only ranks of the job know.
Hello without_job(Hello hello);

/// Does this beginning (any length up to hello_bytes) still look like a hello of ours?
bool could_be_hello(std::string_view begin);
/// Version of a prefix that could be a hello.
std::uint16_t version_of(std::string_view prefix);
/// Nothing if it is no hello of this version.
std::optional<Hello> decode_hello(std::string_view bytes);

/// Is the peer acceptable to us? As far as it says who it is: one that withholds the job has refused us, and says why.
Refusal check_hello(const HandshakeOptions& options, const Hello& peer);

/// What to tell the user; `peer` is null when the versions differ, `by_peer`: it was the peer that refused us.
Status explain_refusal(Refusal why, const HandshakeOptions& options, const Hello* peer, std::uint16_t version,
                       const net::SocketAddress& address, bool by_peer);

/// HMAC-SHA256(secret, role || initiator's hello || acceptor's hello): covers all of both hellos, and a proof of one
/// role is worthless for the other.
bool prove(const std::string& secret, bool initiator, std::string_view initiator_hello, std::string_view acceptor_hello,
           Digest& proof);

}  // namespace fabring

#pragma once
// The bytes of ours that cross libfabric: the address blob, the tags and the introduction. Everything decoded here came
// from a peer or a stranger and is checked before it is believed. Integers are little-endian.
//
// A tag has 63 usable bits (XNET and rxm keep the highest for themselves): the slot below, and above it a channel, the
// sender's rank mixed with the job's key (job_key.hpp). The mixing keeps ranks distinct and makes messages of another
// job, or of someone who only knows the port, match no receive. That is all the protection there is: libfabric's
// listeners cannot authenticate anyone, and whoever reads along sees the key in clear text.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "fabring/status.hpp"
#include "transports/endpoint.hpp"

namespace fabring::fabric {

inline constexpr std::size_t max_name_bytes = 192;  // of a libfabric endpoint name; EFA's has 32, an IPv6 one 28

struct AddressBlob {
  std::uint32_t protocol = 0;
  std::uint32_t protocol_version = 0;
  std::string name;  ///< libfabric's own bytes
};
std::string encode(const AddressBlob& blob);
std::optional<AddressBlob> decode_address(std::string_view bytes);

std::uint64_t tag_of(std::uint64_t job_key, Rank sender, Slot slot);
/// Whose message has this tag. Any number comes out of a tag that is none of the job's.
Rank sender_of(std::uint64_t job_key, std::uint64_t tag);
/// Tags of the two introduction messages and of the empty one of Keepalive: no rank has this channel.
enum class Greeting : std::uint32_t { introduction = 1, answer = 2, keepalive = 3 };
std::uint64_t tag_of(std::uint64_t job_key, Greeting greeting);

/// "I am rank `from` of your job and want rank `to`; my endpoint for you is `name`." 64 bytes: every provider of the
/// native TCP kind can inject that much, so it needs no buffer that lives on.
struct Introduction {
  std::uint64_t job_key = 0;
  Rank from = -1;
  Rank to = -1;
  std::string name;
};
inline constexpr std::size_t introduction_bytes = 64;
inline constexpr std::size_t max_introduced_name = 38;
using IntroductionBytes = std::array<std::byte, introduction_bytes>;
IntroductionBytes encode(const Introduction& introduction);
std::optional<Introduction> decode_introduction(std::span<const std::byte> bytes);

}  // namespace fabring::fabric

#pragma once
// SHA-256, HMAC-SHA256 (OpenSSL) and random bytes from the kernel, for the handshake. Pure functions, any thread.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace fabring {

using Digest = std::array<unsigned char, 32>;

/// False only if OpenSSL fails, which then also means: refuse the peer.
bool sha256(std::string_view bytes, Digest& out);
bool hmac_sha256(std::string_view key, std::string_view bytes, Digest& out);

/// Takes the same time wherever the first difference is.
bool equal_in_constant_time(const Digest& a, const Digest& b);

bool random_bytes(void* into, std::size_t bytes);
/// Never 0: 0 means "not known" wherever we use such a number.
std::uint64_t random_nonce();

}  // namespace fabring

#include "runtime/base/digest.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <cerrno>

#include "runtime/base/check.hpp"

namespace fabring {

bool sha256(std::string_view bytes, Digest& out) {
  unsigned length = 0;
  return EVP_Digest(bytes.data(), bytes.size(), out.data(), &length, EVP_sha256(), nullptr) == 1 &&
         length == out.size();
}

bool hmac_sha256(std::string_view key, std::string_view bytes, Digest& out) {
  unsigned length = 0;
  return HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
              reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), out.data(), &length) != nullptr &&
         length == out.size();
}

bool equal_in_constant_time(const Digest& a, const Digest& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

bool random_bytes(void* into, std::size_t bytes) {
  auto* at = static_cast<unsigned char*>(into);
  while (bytes > 0) {
    const ssize_t got = ::getrandom(at, bytes, 0);
    if (got < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

std::uint64_t random_nonce() {
  std::uint64_t nonce = 0;
  // getrandom cannot fail with these arguments on a kernel that has it, and C++20 needs a newer one than that.
  while (nonce == 0) FABRING_CHECK(random_bytes(&nonce, sizeof nonce));
  return nonce;
}

}  // namespace fabring

#include "transports/fabric/job_key.hpp"

#include "runtime/base/digest.hpp"
#include "runtime/base/wire.hpp"

namespace fabring::fabric {

Result<std::uint64_t> key_of_job(const EndpointOptions& options) {
  if (options.secret.empty()) return options.job_nonce;
  Digest digest;
  // No proof of the handshake begins like this, so that none of them is of use here, nor the other way round.
  if (!hmac_sha256(options.secret, WireWriter().raw("fabring fabric").number(options.job_nonce).take(), digest))
    return Status(ErrorCode::internal, "OpenSSL could not compute HMAC-SHA256");
  return WireReader({reinterpret_cast<const char*>(digest.data()), digest.size()}).number<std::uint64_t>();
}

}  // namespace fabring::fabric

#pragma once
// The number by which libfabric's messages of a job are told from all others (wire.hpp). libfabric's listeners cannot
// authenticate anyone, so whoever knows this number is taken for a rank.

#include <cstdint>

#include "fabring/status.hpp"
#include "transports/transport.hpp"

namespace fabring::fabric {

/// The job's nonce; where there is a secret, what only who has that can make of it: the nonce itself travels in clear
/// text when ranks meet. Error: internal if OpenSSL fails.
Result<std::uint64_t> key_of_job(const EndpointOptions& options);

}  // namespace fabring::fabric

#pragma once
// job_name(): the job's nonce as it may stand where others read it. Every user of a host can list the names of its
// abstract sockets, and whoever knows the nonce itself is taken for a rank in more places than one.

#include <cstdint>
#include <string>
#include <string_view>

namespace fabring {

/// 16 hexadecimal digits of a digest. With another label they are others, so that what is told of one name (`fabring
/// status` shows its own) says nothing of the other names.
std::string job_name(std::string_view label, std::uint64_t job_nonce);

}  // namespace fabring

#include "runtime/base/job_name.hpp"

#include <fmt/format.h>

#include "runtime/base/digest.hpp"
#include "runtime/base/wire.hpp"

namespace fabring {

std::string job_name(std::string_view label, std::uint64_t job_nonce) {
  constexpr std::size_t bytes = 8;
  Digest digest{};
  (void)sha256(WireWriter().raw(label).number(job_nonce).take(), digest);
  std::string name;
  for (std::size_t i = 0; i < bytes; ++i) name += fmt::format("{:02x}", digest[i]);
  return name;
}

}  // namespace fabring

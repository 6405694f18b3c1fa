#include "runtime/startup/gathering.hpp"

#include <fmt/format.h>

#include <utility>

#include "runtime/control/control_plane.hpp"

namespace fabring {
namespace {

// A text that begins with '!' is an error: its code, and its message.
std::string encode(const Status& status) {
  return "!" + std::string(1, static_cast<char>(static_cast<int>(status.code()))) + status.message().substr(0, 4096);
}

ErrorCode decode(const std::string& blob) {
  const auto code = blob.size() > 1 ? static_cast<unsigned char>(blob[1]) : 0;
  return code >= 1 && code <= static_cast<int>(last_error_code) ? static_cast<ErrorCode>(code) : ErrorCode::internal;
}

}  // namespace

Result<std::vector<std::string>> Gathering::operator()(const Result<std::string>& own) {
  auto blobs = control_.all_gather(own ? "+" + *own : encode(own.error()));
  if (!own) return own.error();
  if (!blobs) return blobs.error();
  for (std::size_t rank = 0; rank < blobs->size(); ++rank) {
    std::string& blob = (*blobs)[rank];
    if (blob.empty() || blob[0] == '!') {
      ErrorContext context;
      context.rank = static_cast<Rank>(rank);
      context.host = control_.host_of(static_cast<Rank>(rank));
      return Status(blob.empty() ? ErrorCode::internal : decode(blob),
                    fmt::format("rank {} (host {}) could not start: {}", rank, context.host,
                                blob.size() > 2 ? blob.substr(2) : "no reason given"),
                    context);
    }
    blob.erase(0, 1);
  }
  return blobs;
}

Result<std::vector<Identity>> gather_identities(Gathering& gather, const Result<std::string>& own) {
  auto blobs = gather(own);
  if (!blobs) return blobs.error();
  std::vector<Identity> ranks;
  for (const std::string& blob : *blobs) {
    auto identity = Identity::decode(blob);
    if (!identity) return identity.error();
    ranks.push_back(std::move(*identity));
  }
  return ranks;
}

}  // namespace fabring

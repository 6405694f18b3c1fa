#include "tools/fabring/doctor/blob_exchange.hpp"

#include <fmt/format.h>

#include "runtime/base/wire.hpp"

namespace fabring::tools {
namespace {
constexpr std::size_t part_bytes = 1000;  // a value of the bootstrap has 1024 at most
std::string key_of(const std::string& key, std::uint32_t part) { return fmt::format("{}/{}", key, part); }
std::size_t parts_of(const std::string& blob) { return blob.size() / part_bytes + 1; }
}  // namespace

bool BlobExchange::fits(const std::string& blob) const { return parts_of(blob) <= parts_; }

Status BlobExchange::put(const std::string& key, const std::string& blob) {
  const auto parts = static_cast<std::uint32_t>(parts_of(blob));
  if (!fits(blob))
    return Status(ErrorCode::invalid_argument, fmt::format("{} bytes are too many to exchange", blob.size()));
  for (std::uint32_t part = 0; part < parts; ++part) {
    std::string value = part == 0 ? WireWriter().number(parts).take() : std::string();
    value += blob.substr(part * part_bytes, part_bytes);
    FABRING_TRY(bootstrap_.put(key_of(key, part), value));
  }
  return {};
}

Result<std::string> BlobExchange::get(const std::string& key, std::chrono::steady_clock::time_point deadline) {
  auto first = bootstrap_.get(key_of(key, 0), deadline);
  if (!first) return first.error();
  const auto parts = WireReader(*first).number<std::uint32_t>();
  if (first->size() < sizeof(parts) || parts == 0 || parts > most_parts)
    return Status(ErrorCode::mismatch, fmt::format("what came as '{}' makes no sense", key));
  std::string blob = first->substr(sizeof(parts));
  for (std::uint32_t part = 1; part < parts; ++part) {
    auto more = bootstrap_.get(key_of(key, part), deadline);
    if (!more) return more.error();
    blob += *more;
  }
  return blob;
}

}  // namespace fabring::tools

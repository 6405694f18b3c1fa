#include "runtime/status/status_wire.hpp"

#include <fmt/format.h>

#include <charconv>

#include "runtime/base/job_name.hpp"
#include "runtime/base/wire.hpp"

namespace fabring {
namespace {

constexpr std::string_view request_magic = "fabring?";
constexpr std::string_view answer_magic = "fabring!";
constexpr std::size_t most_host_bytes = 256;
constexpr std::size_t most_state_bytes = 32 * 1024;
constexpr std::uint32_t most_ranks = 1 << 20;

}  // namespace

std::string status_name(std::uint64_t job_nonce, Rank rank) {
  return fmt::format("{}{}-{}", status_name_prefix, job_name("fabring status", job_nonce), rank);
}

std::optional<StatusName> parse_status_name(std::string_view name) {
  constexpr std::size_t digits = 16;
  if (!name.starts_with(status_name_prefix)) return std::nullopt;
  name.remove_prefix(status_name_prefix.size());
  if (name.size() < digits + 2 || name[digits] != '-') return std::nullopt;
  StatusName parsed;
  parsed.job = std::string(name.substr(0, digits));
  if (parsed.job.find_first_not_of("0123456789abcdef") != std::string::npos) return std::nullopt;
  name.remove_prefix(digits + 1);
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), parsed.rank);
  if (error != std::errc() || end != name.data() + name.size() || parsed.rank < 0 ||
      static_cast<std::uint32_t>(parsed.rank) >= most_ranks)
    return std::nullopt;
  return parsed;
}

std::string encode_status_request(bool everybody) {
  return WireWriter()
      .raw(request_magic)
      .number(std::uint8_t{1})
      .number(static_cast<std::uint8_t>(everybody))
      .raw(std::string_view("\0\0\0\0\0\0", 6))
      .take();
}

std::optional<bool> decode_status_request(std::string_view bytes) {
  if (bytes == encode_status_request(false)) return false;
  if (bytes == encode_status_request(true)) return true;
  return std::nullopt;
}

std::string encode_status_answer(const std::vector<RankNews>& news) {
  WireWriter out;
  out.raw(answer_magic).number(static_cast<std::uint32_t>(news.size()));
  for (const RankNews& one : news) {
    out.number(one.rank).text(one.host, most_host_bytes).number(one.pid);
    out.number(static_cast<std::uint8_t>(one.presence)).number(one.silent_ms).text(one.state, most_state_bytes);
  }
  return out.take();
}

std::optional<std::vector<RankNews>> decode_status_answer(std::string_view bytes) {
  WireReader in(bytes);
  if (in.raw(answer_magic.size()) != answer_magic) return std::nullopt;
  const auto count = in.number<std::uint32_t>();
  std::vector<RankNews> news;
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
    RankNews one;
    one.rank = in.number<Rank>();
    one.host = in.text(most_host_bytes);
    for (char& c : one.host)
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
    one.pid = in.number<std::uint32_t>();
    const auto presence = in.number<std::uint8_t>();
    one.silent_ms = in.number<std::int64_t>();
    one.state = in.text(most_state_bytes);
    if (presence > static_cast<std::uint8_t>(RankNews::Presence::unreachable)) return std::nullopt;
    one.presence = static_cast<RankNews::Presence>(presence);
    news.push_back(std::move(one));
  }
  if (!in.complete()) return std::nullopt;
  return news;
}

}  // namespace fabring

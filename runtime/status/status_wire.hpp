#pragma once
// How a rank answers `fabring status` on its host: an abstract unix socket, whose name says which job and which rank, a
// request of 16 bytes, and the news of one rank or of all. Nothing is left behind when a rank dies. Both sides bound
// what they take, and each looks who the other is (SO_PEERCRED).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/control/control_plane.hpp"

namespace fabring {

inline constexpr std::string_view status_name_prefix = "fabring-status-1-";
inline constexpr std::size_t status_request_bytes = 16;
inline constexpr std::size_t most_status_answer_bytes = std::size_t{64} << 20;

struct StatusName {
  std::string job;  ///< 16 hexadecimal digits, made from the job's nonce and telling nothing about it
  Rank rank = -1;
};

/// The name of a rank's socket, without the leading zero that makes it abstract.
std::string status_name(std::uint64_t job_nonce, Rank rank);
/// Nothing if it is no such name.
std::optional<StatusName> parse_status_name(std::string_view name);

std::string encode_status_request(bool everybody);
/// True: the news of all ranks are wanted. Nothing if it is no request.
std::optional<bool> decode_status_request(std::string_view bytes);

std::string encode_status_answer(const std::vector<RankNews>& news);
std::optional<std::vector<RankNews>> decode_status_answer(std::string_view bytes);

}  // namespace fabring

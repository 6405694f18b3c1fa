#pragma once
// Limit: how long a group waits for its other ranks, and who says so.

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace fabring_torch {

struct Limit {
  std::chrono::milliseconds time{0};
  bool is_setting = false;  ///< FABRING_RENDEZVOUS_TIMEOUT, not the timeout of the group

  /// "300 ms (FABRING_RENDEZVOUS_TIMEOUT)"
  std::string text() const;
};

/// FABRING_RENDEZVOUS_TIMEOUT where it is set, else the timeout of the group. Throws if it cannot be read.
Limit rendezvous_limit(std::chrono::milliseconds group_timeout);

/// For an error of the engine, which names the setting as it knows no group: "; FABRING_RENDEZVOUS_TIMEOUT is not set:
/// it is the timeout of the group", empty where it is set.
std::string limit_note();

/// As settings of the engine read: "300 ms", "2 s", "5 min", "1 h". None: it is no duration.
std::optional<std::chrono::milliseconds> duration_of(std::string_view text);

}  // namespace fabring_torch

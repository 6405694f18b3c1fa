#pragma once
// Ranks as threads of this process, each with an engine of its own over TCP on loopback, made through fabring.h.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "fabring/fabring.h"

/// In a test that has a fabring_error `error` and gave it to the call.
#define EXPECT_OK(call) EXPECT_EQ(call, FABRING_STATUS_OK) << error.message

namespace fabring::c_api::tests {

/// A port that nobody else is given while this lives: bound, not listening, so that a rank 0 may.
class ReservedPort {
 public:
  ReservedPort();
  ~ReservedPort();
  ReservedPort(const ReservedPort&) = delete;
  ReservedPort& operator=(const ReservedPort&) = delete;
  std::string text() const { return std::to_string(port_); }

 private:
  int fd_ = -1;
  int port_ = 0;
};

struct Rank {
  std::int32_t rank;
  fabring_engine* engine;
  fabring_comm* world;
};

using Settings = std::vector<std::pair<const char*, std::string>>;

/// Runs `rank_main` for every rank in a thread of its own, and waits for all. Engine and world are freed after it.
/// `more` settings come after those for meeting on loopback, then `configure` has each rank's configuration.
void run_ranks(int size, const std::function<void(Rank)>& rank_main, const Settings& more = {},
               const std::function<void(std::int32_t rank, fabring_config*)>& configure = {});

}  // namespace fabring::c_api::tests

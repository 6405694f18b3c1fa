#pragma once
// BlobExchange: texts of any bounded length over a Bootstrap, whose values are short: cut into numbered parts. It is
// the connection over which the ranks have met that carries them, so it works where nothing else does.

#include <chrono>
#include <string>

#include "runtime/bootstrap/bootstrap.hpp"

namespace fabring::tools {

class BlobExchange {
 public:
  explicit BlobExchange(Bootstrap& bootstrap) : bootstrap_(bootstrap) {}
  /// Errors: invalid_argument (too long: 60 KiB), peer_lost (rank 0 is gone).
  Status put(const std::string& key, const std::string& blob);
  /// Errors: timeout, peer_lost (a rank died meanwhile), mismatch (what came makes no sense).
  Result<std::string> get(const std::string& key, std::chrono::steady_clock::time_point deadline);

 private:
  Bootstrap& bootstrap_;
};

}  // namespace fabring::tools

#pragma once
// BlobExchange: texts of any bounded length over a Bootstrap, whose values are short: cut into numbered parts. It is
// the connection over which the ranks have met that carries them, so it works where nothing else does.

#include <chrono>
#include <cstdint>
#include <string>

#include "runtime/bootstrap/bootstrap.hpp"

namespace fabring::tools {

class BlobExchange {
 public:
  static constexpr std::uint32_t most_parts = 250;  ///< 250 KB

  explicit BlobExchange(Bootstrap& bootstrap, std::uint32_t parts = most_parts)
      : bootstrap_(bootstrap), parts_(parts) {}
  /// Is it short enough for put()?
  bool fits(const std::string& blob) const;
  /// Errors: invalid_argument (too long), peer_lost (rank 0 is gone).
  Status put(const std::string& key, const std::string& blob);
  /// Errors: timeout, peer_lost (a rank died meanwhile), mismatch (what came makes no sense).
  Result<std::string> get(const std::string& key, std::chrono::steady_clock::time_point deadline);

 private:
  Bootstrap& bootstrap_;
  const std::uint32_t parts_;
};

}  // namespace fabring::tools

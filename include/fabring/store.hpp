#pragma once
// Store: a key-value store of the embedding framework, by which ranks meet instead of by the environment. A framework
// that has met already (a c10d Store, etcd, Redis) hands it to Engine::create, and nobody needs another master address.

#include <chrono>
#include <string>

#include "fabring/export.hpp"
#include "fabring/status.hpp"

namespace fabring {

/// The functions of a program's store must not throw. What they answer but success, and of get() but timeout, ends the
/// meeting here with that code (`internal`, which means a bug of Fabring's, and an exception count as `unavailable`):
/// the error names the key, and the other ranks hear of it as far as the store still takes it.
class FABRING_API Store {
 public:
  virtual ~Store() = default;
  /// Publishes a value of at most 1 KiB (any bytes) under a key that was not used before.
  virtual Status put(const std::string& key, const std::string& value) = 0;
  /// Waits at most `limit` until somebody has published it; 0 only looks. Past it: ErrorCode::timeout.
  virtual Result<std::string> get(const std::string& key, std::chrono::nanoseconds limit) = 0;
};

}  // namespace fabring

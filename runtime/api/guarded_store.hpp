#pragma once
// GuardedStore: the program's Store as start-up uses it. What the program's functions do wrong, an exception or an
// answer that is none, becomes an error that names the store and the key. The program owns the store; it outlives this.

#include <chrono>
#include <string>

#include "fabring/store.hpp"

namespace fabring {

class GuardedStore final : public Store {
 public:
  explicit GuardedStore(Store& store) : store_(store) {}
  Status put(const std::string& key, const std::string& value) override;
  Result<std::string> get(const std::string& key, std::chrono::nanoseconds limit) override;

 private:
  Store& store_;
};

}  // namespace fabring

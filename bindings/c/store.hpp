#pragma once
// CallersStore: a fabring_store of the caller as a fabring::Store. What comes back from the caller's functions is
// checked before it is used.

#include "fabring/fabring.h"
#include "fabring/store.hpp"

namespace fabring::c_api {

class CallersStore final : public Store {
 public:
  explicit CallersStore(const fabring_store& functions) : functions_(functions) {}
  Status put(const std::string& key, const std::string& value) override;
  Result<std::string> get(const std::string& key, std::chrono::nanoseconds limit) override;

 private:
  const fabring_store functions_;
};

}  // namespace fabring::c_api

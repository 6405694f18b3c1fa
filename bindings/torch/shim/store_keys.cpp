#include "store_keys.hpp"

#include <exception>
#include <utility>

namespace fabring_torch {

StoreKeys::StoreKeys(c10::intrusive_ptr<c10d::Store> store, std::string prefix)
    : store_(std::move(store)), prefix_(std::move(prefix)) {}

void StoreKeys::put(const std::string& key, const std::string& value) const { store_->set(name(key), value); }

bool StoreKeys::wait(const std::string& key, std::chrono::milliseconds limit) const {
  const std::string full = name(key);
  if (limit.count() == 0) return store_->check({full});
  try {
    store_->wait({full}, limit);
    return true;
  } catch (const std::exception&) {  // stores differ in how they say that time ran out; a lost one fails again
    return store_->check({full});
  }
}

std::string StoreKeys::get(const std::string& key) const { return store_->get_to_str(name(key)); }

std::int64_t StoreKeys::count(const std::string& key, std::int64_t add) const { return store_->add(name(key), add); }

void StoreKeys::erase(const std::string& key) const { store_->deleteKey(name(key)); }

}  // namespace fabring_torch

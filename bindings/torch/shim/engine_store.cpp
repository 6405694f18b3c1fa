#include "engine_store.hpp"

#include <chrono>
#include <cstring>

#include "lost_store.hpp"
#include "store_keys.hpp"

namespace fabring_torch {

fabring_store EngineStore::functions() {
  fabring_store made = FABRING_STORE_INIT;
  made.context = this;
  made.put = &EngineStore::put;
  made.get = &EngineStore::get;
  return made;
}

std::int32_t EngineStore::put(void* self, const char* key, const void* value, std::size_t size) {
  auto& store = *static_cast<EngineStore*>(self);
  if (!store.failure_.empty()) return FABRING_STATUS_UNAVAILABLE;
  try {
    store.keys_.put(key, std::string(static_cast<const char*>(value), size));
    return FABRING_STATUS_OK;
  } catch (const std::exception& thrown) {
    store.failure_ = failed_store_text(store.keys_.store(), thrown);
    return FABRING_STATUS_UNAVAILABLE;
  }
}

std::int32_t EngineStore::get(void* self, const char* key, std::uint64_t nanoseconds, void* value, std::size_t capacity,
                              std::size_t* size) {
  auto& store = *static_cast<EngineStore*>(self);
  if (!store.failure_.empty()) return FABRING_STATUS_UNAVAILABLE;
  try {
    const auto limit = std::chrono::ceil<std::chrono::milliseconds>(std::chrono::nanoseconds(nanoseconds));
    if (!store.keys_.wait(key, limit)) return FABRING_STATUS_TIMEOUT;
    const std::string found = store.keys_.get(key);
    *size = found.size();
    if (found.size() > capacity) return FABRING_STATUS_INVALID_ARGUMENT;
    std::memcpy(value, found.data(), found.size());
    return FABRING_STATUS_OK;
  } catch (const std::exception& thrown) {
    store.failure_ = failed_store_text(store.keys_.store(), thrown);
    return FABRING_STATUS_UNAVAILABLE;
  }
}

}  // namespace fabring_torch

#pragma once
// EngineStore: a store as fabring.h asks for it. Once the store has failed it is not asked again: each try would print
// c10d's own warning with a stack of frames, and the first one has said all there is.

#include <cstddef>
#include <cstdint>
#include <string>

#include "fabring/fabring.h"

namespace fabring_torch {

class StoreKeys;

class EngineStore {
 public:
  /// Keeps the keys by reference.
  explicit EngineStore(const StoreKeys& keys) : keys_(keys) {}
  EngineStore(const EngineStore&) = delete;
  EngineStore& operator=(const EngineStore&) = delete;

  /// To be used while this lives.
  fabring_store functions();
  /// How the store failed, for people; empty: it did not.
  const std::string& failure() const { return failure_; }

 private:
  static std::int32_t put(void* self, const char* key, const void* value, std::size_t size);
  static std::int32_t get(void* self, const char* key, std::uint64_t nanoseconds, void* value, std::size_t capacity,
                          std::size_t* size);

  const StoreKeys& keys_;
  std::string failure_;
};

}  // namespace fabring_torch

#include "engine_store.hpp"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "engine.hpp"
#include "failure.hpp"

namespace fabring_torch {
namespace {

c10d::Store& without_prefix(c10d::Store& store) {
  auto* const prefixed = dynamic_cast<c10d::PrefixStore*>(&store);
  return prefixed == nullptr ? store : *prefixed->getUnderlyingNonPrefixStore();
}

bool is_of_torchruns_agent() {
  const char* const said = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  return said != nullptr && std::string_view(said) == "True";
}

}  // namespace

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

std::string failed_store_text(c10d::Store& store, const std::exception& thrown) {
  const std::string why = text_of(thrown);
  const auto* const tcp = dynamic_cast<const c10d::TCPStore*>(&without_prefix(store));
  if (tcp == nullptr) return c10::str("the store of the process group failed: ", why);
  const std::string place = c10::str("the store at ", tcp->getHost(), ":", tcp->getPort());
  if (is_of_torchruns_agent())
    return c10::str(place, ", which torchrun has, is gone: look at torchrun's output on that host (", why, ")");
  return c10::str(place,
                  ", which rank 0's process has unless the program made it elsewhere, is gone: look at rank 0's ",
                  "output (", why, ")");
}

}  // namespace fabring_torch

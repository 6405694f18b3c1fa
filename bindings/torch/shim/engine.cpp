#include "engine.hpp"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "config.hpp"
#include "failure.hpp"

namespace fabring_torch {
namespace {

// Groups are made and destroyed from any thread.
struct Table {
  std::mutex mutex;
  std::vector<std::weak_ptr<SharedEngine>> engines;  // as they were made
};

Table& table() { return of_process<Table>(); }

// The newest first.
std::vector<std::shared_ptr<SharedEngine>> living() {
  std::vector<std::shared_ptr<SharedEngine>> found;
  const std::lock_guard lock(table().mutex);
  std::erase_if(table().engines, [](const auto& engine) { return engine.expired(); });
  for (const auto& engine : table().engines)
    if (auto alive = engine.lock()) found.push_back(std::move(alive));
  std::reverse(found.begin(), found.end());
  return found;
}

// ---- the store, as fabring.h asks for it --------------------------------------------------------------------------

std::int32_t put_value(void* context, const char* key, const void* value, std::size_t size) {
  try {
    static_cast<const Keys*>(context)->put(key, std::string(static_cast<const char*>(value), size));
    return FABRING_STATUS_OK;
  } catch (const std::exception& thrown) {
    TORCH_WARN("fabring: the store did not take '", key, "': ", thrown.what());
    return FABRING_STATUS_UNAVAILABLE;
  }
}

std::int32_t get_value(void* context, const char* key, std::uint64_t nanoseconds, void* value, std::size_t capacity,
                       std::size_t* size) {
  try {
    const auto* keys = static_cast<const Keys*>(context);
    const auto limit = std::chrono::ceil<std::chrono::milliseconds>(std::chrono::nanoseconds(nanoseconds));
    if (!keys->wait(key, limit)) return FABRING_STATUS_TIMEOUT;
    const std::string found = keys->get(key);
    *size = found.size();
    if (found.size() > capacity) return FABRING_STATUS_INVALID_ARGUMENT;
    std::memcpy(value, found.data(), found.size());
    return FABRING_STATUS_OK;
  } catch (const std::exception& thrown) {
    TORCH_WARN("fabring: the store did not give '", key, "': ", thrown.what());
    return FABRING_STATUS_UNAVAILABLE;
  }
}

}  // namespace

// ---- Keys ---------------------------------------------------------------------------------------------------------

Keys::Keys(c10::intrusive_ptr<c10d::Store> store, std::string prefix)
    : store_(std::move(store)), prefix_(std::move(prefix)) {}

void Keys::put(const std::string& key, const std::string& value) const { store_->set(prefix_ + key, value); }

bool Keys::wait(const std::string& key, std::chrono::milliseconds limit) const {
  const std::string name = prefix_ + key;
  if (limit.count() == 0) return store_->check({name});
  try {
    store_->wait({name}, limit);
    return true;
  } catch (const std::exception&) {  // stores differ in how they say that time ran out; a lost one fails again
    return store_->check({name});
  }
}

std::string Keys::get(const std::string& key) const { return store_->get_to_str(prefix_ + key); }

std::int64_t Keys::count(const std::string& key, std::int64_t add) const { return store_->add(prefix_ + key, add); }

// ---- SharedEngine -------------------------------------------------------------------------------------------------

SharedEngine::Joined SharedEngine::create(const Keys& keys, int rank, int size, std::chrono::milliseconds timeout,
                                          std::vector<std::int64_t> global_ranks, std::string token) {
  Config config;
  configure(config, rank, size, timeout);
  fabring_store store = FABRING_STORE_INIT;
  store.context = const_cast<Keys*>(&keys);
  store.put = put_value;
  store.get = get_value;
  fabring_engine* handle = nullptr;
  check(fabring_engine_create_with_store(config.handle, &store, &handle, &config.error), config.error);
  std::shared_ptr<SharedEngine> made(new SharedEngine(keys, handle, std::move(global_ranks), std::move(token)));
  auto stay = std::make_shared<Stay>(made);
  made->stay_ = stay;
  const std::lock_guard lock(table().mutex);
  table().engines.push_back(made);
  return {std::move(made), std::move(stay)};
}

SharedEngine::~SharedEngine() {
  if (origin_.is_this_process()) fabring_engine_destroy(handle_);
}

std::shared_ptr<SharedEngine> SharedEngine::find(const std::string& token) {
  for (auto& engine : living())
    if (engine->token_ == token) return engine;
  return nullptr;
}

std::shared_ptr<SharedEngine> SharedEngine::find(const std::vector<std::int64_t>& global_ranks) {
  for (auto& engine : living())
    if (engine->serves(global_ranks)) return engine;
  return nullptr;
}

std::vector<std::string> SharedEngine::tokens(const std::vector<std::int64_t>& global_ranks) {
  std::vector<std::string> found;
  for (const auto& engine : living())
    if (engine->serves(global_ranks)) found.push_back(engine->token_);
  return found;
}

bool SharedEngine::serves(const std::vector<std::int64_t>& global_ranks) const {
  if (stay_.expired()) return false;
  return std::all_of(global_ranks.begin(), global_ranks.end(), [this](std::int64_t rank) {
    return std::find(global_ranks_.begin(), global_ranks_.end(), rank) != global_ranks_.end();
  });
}

std::uint32_t SharedEngine::take_number() const { return static_cast<std::uint32_t>(keys_.count("subgroups", 1)); }

fabring_comm* SharedEngine::subgroup(const std::vector<std::int64_t>& global_ranks, std::uint32_t number,
                                     const std::string& label) const {
  std::vector<std::int32_t> ranks;
  for (const std::int64_t rank : global_ranks) {
    const auto at = std::find(global_ranks_.begin(), global_ranks_.end(), rank);
    ranks.push_back(static_cast<std::int32_t>(at - global_ranks_.begin()));
  }
  fabring_error error = FABRING_ERROR_INIT;
  fabring_comm* all = world();
  fabring_comm* made = nullptr;
  const fabring_status_code code =
      fabring_comm_subgroup(all, ranks.data(), ranks.size(), number, label.c_str(), &made, &error);
  fabring_comm_free(all);
  check(code, error);
  return made;
}

fabring_comm* SharedEngine::world() const {
  fabring_error error = FABRING_ERROR_INIT;
  fabring_comm* made = nullptr;
  check(fabring_engine_world(handle_, &made, &error), error);
  return made;
}

void SharedEngine::leave_all() {
  for (const auto& engine : living()) fabring_engine_leave(engine->handle_, nullptr);
}

}  // namespace fabring_torch

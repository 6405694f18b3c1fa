#include "engine.hpp"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <utility>

#include "bindings/whole_text.hpp"
#include "config.hpp"
#include "engine_store.hpp"
#include "failure.hpp"
#include "hearing.hpp"
#include "limit.hpp"

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

// Makes the engine, or tells the others by the store why there will be none.
fabring_engine* meet(EngineStore& store, int rank, int size, std::chrono::milliseconds timeout,
                     const std::string& job) {
  const fabring_store functions = store.functions();
  Config config;
  try {
    configure(config, rank, size, timeout, job);
  } catch (const std::exception& thrown) {
    const bool known = config.error.code != FABRING_STATUS_OK;
    fabring_store_decline(&functions, rank, known ? config.error.code : FABRING_STATUS_INTERNAL,
                          known ? config.error.message : text_of(thrown).c_str(), nullptr);
    throw;
  }
  fabring_engine* made = nullptr;
  if (fabring_engine_create_with_store(config.handle, &functions, &made, &config.error) == FABRING_STATUS_OK)
    return made;
  std::string more;
  if (!store.failure().empty()) more = "; " + store.failure();
  if (config.error.code == FABRING_STATUS_TIMEOUT)
    more += c10::str("; all ranks had answered in the store before", limit_note());
  // What another rank's caller did wrong this one's has not.
  if (config.error.rank >= 0 && config.error.rank != rank) raise_lost(text_of(config.error) + more);
  std::rethrow_exception(exception_of(config.error, more.c_str()));
}

// The process of the job's rank 0 may have the store that tells the others of this: it stays for them, who say that
// they have heard.
void wait_until_failure_is_heard(const StoreKeys& keys, std::size_t rank,
                                 const std::vector<std::int64_t>& global_ranks) {
  const auto heard = [&keys](std::size_t who) { return keys.name(c10::str("heard/", who)); };
  if (global_ranks[rank] != 0) return say_heard(keys.store(), heard(rank));
  std::vector<std::string> others;
  for (std::size_t other = 0; other < global_ranks.size(); ++other)
    if (other != rank) others.push_back(heard(other));
  wait_until_heard(keys.store(), others);
}

}  // namespace

SharedEngine::Joined SharedEngine::create(const StoreKeys& keys, int rank, int size, std::chrono::milliseconds timeout,
                                          std::vector<std::int64_t> global_ranks, std::string token,
                                          const std::string& job) {
  EngineStore store(keys);
  fabring_engine* handle = nullptr;
  try {
    handle = meet(store, rank, size, timeout, job);
  } catch (const std::exception&) {
    if (store.failure().empty()) wait_until_failure_is_heard(keys, static_cast<std::size_t>(rank), global_ranks);
    throw;
  }
  std::shared_ptr<SharedEngine> made(new SharedEngine(keys, handle, std::move(global_ranks), std::move(token)));
  auto stay = std::make_shared<Stay>(made);
  made->stay_ = stay;
  const std::lock_guard lock(table().mutex);
  table().engines.push_back(made);
  return {std::move(made), std::move(stay)};
}

SharedEngine::~SharedEngine() {
  tensor_memory_->close();
  if (origin_.is_here()) fabring_engine_destroy(handle_);
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

std::string SharedEngine::setting(const std::string& name) const {
  return fabring::bindings::whole_text(
      [&](char* to, std::size_t size, std::size_t* needed, fabring_error* error) {
        return fabring_engine_setting(handle_, name.c_str(), to, size, needed, error);
      },
      check);
}

std::chrono::milliseconds SharedEngine::longest_leave() {
  std::chrono::milliseconds longest(0);
  for (const auto& engine : living())
    longest = std::max(longest, duration_of(engine->setting("FABRING_LEAVE_TIMEOUT")).value_or(longest));
  return longest;
}

void SharedEngine::leave_all() {
  for (const auto& engine : living()) fabring_engine_leave(engine->handle_, nullptr);
}

}  // namespace fabring_torch

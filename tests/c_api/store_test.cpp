// Engines that meet by a key-value store of the caller's instead of at a master address.
#include <gmock/gmock.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "fabring/fabring.h"

namespace fabring::c_api::tests {
namespace {

using testing::HasSubstr;

/// A store as a framework may have it, shared by the threads that are ranks here.
class SharedMap {
 public:
  void put(const std::string& key, std::string value) {
    const std::lock_guard lock(mutex_);
    values_[key] = std::move(value);
    changed_.notify_all();
  }
  fabring_store store() {
    fabring_store made = FABRING_STORE_INIT;
    made.context = this;
    made.put = [](void* self, const char* key, const void* value, std::size_t size) -> std::int32_t {
      static_cast<SharedMap*>(self)->put(key, std::string(static_cast<const char*>(value), size));
      return FABRING_STATUS_OK;
    };
    made.get = [](void* self, const char* key, std::uint64_t nanoseconds, void* value, std::size_t capacity,
                  std::size_t* size) -> std::int32_t {
      return static_cast<SharedMap*>(self)->get(key, std::chrono::nanoseconds(nanoseconds), value, capacity, size);
    };
    return made;
  }

 private:
  std::int32_t get(const std::string& key, std::chrono::nanoseconds limit, void* value, std::size_t capacity,
                   std::size_t* size) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, limit, [&] { return values_.contains(key); })) return FABRING_STATUS_TIMEOUT;
    const std::string& found = values_[key];
    *size = found.size();
    std::memcpy(value, found.data(), std::min(capacity, found.size()));
    return FABRING_STATUS_OK;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

fabring_config* config_of(int rank, int size, const char* patience) {
  fabring_config* config = nullptr;
  EXPECT_EQ(fabring_config_create(&config, nullptr), FABRING_STATUS_OK);
  const std::pair<const char*, std::string> settings[] = {{"FABRING_RANK", std::to_string(rank)},
                                                          {"FABRING_WORLD_SIZE", std::to_string(size)},
                                                          {"FABRING_TRANSPORT", "tcp"},
                                                          {"FABRING_RENDEZVOUS_TIMEOUT", patience}};
  for (const auto& [name, value] : settings)
    EXPECT_EQ(fabring_config_set(config, name, value.c_str(), nullptr), FABRING_STATUS_OK);
  return config;
}

TEST(Store, lets_ranks_meet_without_a_master_address) {
  SharedMap map;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&map, rank] {
      fabring_error error = FABRING_ERROR_INIT;
      fabring_config* config = config_of(rank, 3, "60s");
      const fabring_store store = map.store();
      fabring_engine* engine = nullptr;
      fabring_comm* world = nullptr;
      ASSERT_EQ(fabring_engine_create_with_store(config, &store, &engine, &error), FABRING_STATUS_OK) << error.message;
      ASSERT_EQ(fabring_engine_world(engine, &world, &error), FABRING_STATUS_OK) << error.message;
      std::int32_t sum = rank + 1;
      EXPECT_EQ(fabring_allreduce(world, &sum, &sum, 1, FABRING_TYPE_INT32, FABRING_OP_SUM, &error), FABRING_STATUS_OK)
          << error.message;
      EXPECT_EQ(sum, 6);
      fabring_comm_free(world);
      fabring_engine_destroy(engine);
      fabring_config_free(config);
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(Store, names_on_every_rank_those_that_did_not_come) {
  SharedMap map;
  std::vector<std::thread> threads;
  for (int rank : {0, 2})
    threads.emplace_back([&map, rank] {
      fabring_error error = FABRING_ERROR_INIT;
      fabring_config* config = config_of(rank, 4, "200ms");
      const fabring_store store = map.store();
      fabring_engine* engine = nullptr;
      EXPECT_EQ(fabring_engine_create_with_store(config, &store, &engine, &error), FABRING_STATUS_TIMEOUT);
      EXPECT_THAT(error.message, HasSubstr("ranks 1 and 3 of 4 did not come"));
      fabring_config_free(config);
    });
  for (std::thread& thread : threads) thread.join();
}

// The others would wait for it until their limit.
TEST(Store, tells_at_once_whose_configuration_is_refused_and_why) {
  for (const int wrong : {0, 2})
    for (const bool by_create : {false, true}) {
      SharedMap map;
      const auto since = std::chrono::steady_clock::now();
      std::vector<std::thread> threads;
      for (int rank = 0; rank < 3; ++rank)
        threads.emplace_back([&map, rank, wrong, by_create] {
          fabring_error error = FABRING_ERROR_INIT;
          fabring_config* config = config_of(rank, 3, "60s");
          const fabring_store store = map.store();
          fabring_engine* engine = nullptr;
          if (rank == wrong && !by_create) {
            EXPECT_EQ(
                fabring_store_decline(&store, rank, FABRING_STATUS_INVALID_ARGUMENT, "no /nowhere/secret", &error),
                FABRING_STATUS_OK)
                << error.message;
          } else {
            if (rank == wrong) {
              EXPECT_EQ(fabring_config_set(config, "FABRING_SECRET_FILE", "/nowhere/secret", &error),
                        FABRING_STATUS_OK);
            }
            EXPECT_NE(fabring_engine_create_with_store(config, &store, &engine, &error), FABRING_STATUS_OK);
            EXPECT_THAT(error.message, HasSubstr("/nowhere/secret"));
          }
          if (rank != wrong) {
            EXPECT_THAT(error.message, HasSubstr("rank " + std::to_string(wrong) + " (host "));
            EXPECT_EQ(error.rank, wrong);
          }
          fabring_config_free(config);
        });
      for (std::thread& thread : threads) thread.join();
      EXPECT_LT(std::chrono::steady_clock::now() - since, std::chrono::seconds(30));
    }
}

TEST(Store, takes_no_refusal_without_an_error) {
  SharedMap map;
  const fabring_store store = map.store();
  fabring_error error = FABRING_ERROR_INIT;
  for (const std::int32_t code : {0, -1, 99})
    EXPECT_EQ(fabring_store_decline(&store, 1, code, "", &error), FABRING_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(fabring_store_decline(&store, -1, FABRING_STATUS_UNAVAILABLE, "", &error), FABRING_STATUS_INVALID_ARGUMENT);
}

// A file of its owner's only, as it has to be; gone with the test.
class SecretFile {
 public:
  explicit SecretFile(std::string_view secret) : path_(testing::TempDir() + "secret-XXXXXX") {
    const int file = ::mkstemp(path_.data());
    EXPECT_GE(file, 0);
    EXPECT_EQ(::write(file, secret.data(), secret.size()), static_cast<ssize_t>(secret.size()));
    ::close(file);
  }
  ~SecretFile() { ::unlink(path_.c_str()); }
  SecretFile(const SecretFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(Store, between_ranks_with_and_without_a_secret_ends_on_all_at_once) {
  SharedMap map;
  const SecretFile secret("a secret of sufficient length");
  const auto since = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&map, &secret, rank] {
      fabring_error error = FABRING_ERROR_INIT;
      fabring_config* config = config_of(rank, 3, "60s");
      if (rank != 1) {
        EXPECT_EQ(fabring_config_set(config, "FABRING_SECRET_FILE", secret.path().c_str(), nullptr), FABRING_STATUS_OK);
      }
      const fabring_store store = map.store();
      fabring_engine* engine = nullptr;
      EXPECT_EQ(fabring_engine_create_with_store(config, &store, &engine, &error), FABRING_STATUS_MISMATCH);
      EXPECT_THAT(error.message, HasSubstr("set FABRING_SECRET_FILE on all ranks or on none"));
      fabring_config_free(config);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_LT(std::chrono::steady_clock::now() - since, std::chrono::seconds(30));
}

TEST(Store, with_something_else_under_its_keys_is_an_error) {
  fabring_error error = FABRING_ERROR_INIT;
  for (const std::string& junk :
       {std::string(), std::string("+"), std::string(1024, '+'), std::string("!\x07\0\0", 4)}) {
    SharedMap map;
    map.put("meeting", junk);
    fabring_config* config = config_of(1, 2, "10s");
    const fabring_store store = map.store();
    fabring_engine* engine = nullptr;
    EXPECT_EQ(fabring_engine_create_with_store(config, &store, &engine, &error), FABRING_STATUS_MISMATCH);
    EXPECT_THAT(error.message, HasSubstr("cannot be read"));
    fabring_config_free(config);
  }
}

TEST(Store, that_fails_or_lies_is_not_trusted) {
  fabring_error error = FABRING_ERROR_INIT;
  fabring_engine* engine = nullptr;
  fabring_config* config = config_of(1, 2, "10s");
  fabring_store store = FABRING_STORE_INIT;
  EXPECT_EQ(fabring_engine_create_with_store(config, &store, &engine, &error), FABRING_STATUS_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("put"));
  store.put = [](void*, const char*, const void*, std::size_t) -> std::int32_t { return FABRING_STATUS_OK; };
  store.get = [](void*, const char*, std::uint64_t, void*, std::size_t, std::size_t* size) -> std::int32_t {
    *size = 1 << 30;
    return FABRING_STATUS_OK;
  };
  EXPECT_EQ(fabring_engine_create_with_store(config, &store, &engine, &error), FABRING_STATUS_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("1073741824 bytes where 1024 had room"));
  store.get = [](void*, const char*, std::uint64_t, void*, std::size_t, std::size_t*) -> std::int32_t {
    return FABRING_STATUS_TIMEOUT;
  };
  store.put = [](void*, const char*, const void*, std::size_t) -> std::int32_t { return 4711; };
  EXPECT_EQ(fabring_engine_create_with_store(config, &store, &engine, &error), FABRING_STATUS_INVALID_ARGUMENT);
  EXPECT_THAT(error.message,
              HasSubstr("the program's store: its put of 'join/1' failed: it answered 4711, which is no"));
  store.put = [](void*, const char*, const void*, std::size_t) -> std::int32_t { return FABRING_STATUS_INTERNAL; };
  EXPECT_EQ(fabring_engine_create_with_store(config, &store, &engine, &error), FABRING_STATUS_UNAVAILABLE);
  EXPECT_THAT(error.message, HasSubstr("its put of 'join/1' failed: it answered internal"));
  store.put = [](void*, const char*, const void*, std::size_t) -> std::int32_t { throw std::runtime_error("boom"); };
  EXPECT_EQ(fabring_engine_create_with_store(config, &store, &engine, &error), FABRING_STATUS_UNAVAILABLE);
  EXPECT_THAT(error.message, HasSubstr("its put of 'join/1' threw an exception (boom)"));
  fabring_config_free(config);
}

}  // namespace
}  // namespace fabring::c_api::tests

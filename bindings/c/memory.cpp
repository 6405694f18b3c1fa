// fabring_mem_alloc, fabring_mem_free, fabring_mem_is_shared. C has a pointer only, so what it belongs to is kept here:
// one list for the process, as of malloc.

#include <pthread.h>

#include <map>
#include <mutex>

#include "bindings/c/handles.hpp"
#include "fabring/memory.hpp"

using namespace fabring::c_api;
using fabring::Status;

namespace {

struct Given {
  std::mutex mutex;
  std::map<const void*, fabring::MappedBuffer> buffers;
};

// Never destroyed: a program may end with memory that it has not freed.
Given& given();

// A child of fork() has the list whole, and nobody in the middle of changing it.
[[maybe_unused]] const int watched =
    ::pthread_atfork([] { given().mutex.lock(); }, [] { given().mutex.unlock(); }, [] { given().mutex.unlock(); });

Given& given() {
  static Given* const list = new Given;
  return *list;
}

Status no_such_memory() {
  return {fabring::ErrorCode::invalid_argument,
          "the argument 'memory' is not what fabring_mem_alloc gave (its first byte), or it was freed"};
}

}  // namespace

fabring_status_code fabring_mem_alloc(fabring_engine* engine, std::size_t bytes, void** memory, fabring_error* error) {
  if (memory != nullptr) *memory = nullptr;
  return answer(error, [&]() -> Status {
    FABRING_TRY(check_handle(engine, "engine"));
    if (memory == nullptr) return null_argument("memory");
    auto buffer = engine->value->allocate(bytes);
    if (!buffer) return buffer.error();
    void* const data = buffer->data();
    std::lock_guard lock(given().mutex);
    given().buffers.emplace(data, std::move(*buffer));
    *memory = data;
    return {};
  });
}

fabring_status_code fabring_mem_free(void* memory) {
  return answer(nullptr, [&]() -> Status {
    if (memory == nullptr) return {};
    fabring::MappedBuffer buffer;
    std::lock_guard lock(given().mutex);
    const auto at = given().buffers.find(memory);
    if (at == given().buffers.end()) return no_such_memory();
    buffer = std::move(at->second);
    given().buffers.erase(at);
    return {};
  });
}

fabring_status_code fabring_mem_is_shared(const void* memory, int* shared, fabring_error* error) {
  return answer(error, [&]() -> Status {
    if (memory == nullptr) return null_argument("memory");
    if (shared == nullptr) return null_argument("shared");
    std::lock_guard lock(given().mutex);
    const auto at = given().buffers.find(memory);
    if (at == given().buffers.end()) return no_such_memory();
    *shared = at->second.shared() ? 1 : 0;
    return {};
  });
}

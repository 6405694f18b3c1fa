#include "runtime/api/guarded_store.hpp"

#include <fmt/format.h>

#include <exception>

namespace fabring {
namespace {

Status wrong_store(ErrorCode code, const char* function, const std::string& key, const std::string& what) {
  return {code, fmt::format("the program's store: its {} of '{}' {}", function, key, what)};
}

// Internal are bugs of Fabring's only.
Status failed_store(const char* function, const std::string& key, const Status& why) {
  const ErrorCode code = why.code() == ErrorCode::internal ? ErrorCode::unavailable : why.code();
  const std::string text = wrong_store(code, function, key, "failed: ").message() + why.message();
  return {code, text, why.context()};
}

// What `ask` answers, or what it threw.
template <class Answer, class Ask>
Answer guarded_answer(const char* function, const std::string& key, Ask&& ask) {
  try {
    return ask();
  } catch (const std::exception& thrown) {
    return wrong_store(ErrorCode::unavailable, function, key,
                       fmt::format("threw an exception ({}); it has to return a Status", thrown.what()));
  } catch (...) {
    return wrong_store(ErrorCode::unavailable, function, key,
                       "threw an exception of unknown type; it has to return a Status");
  }
}

}  // namespace

Status GuardedStore::put(const std::string& key, const std::string& value) {
  return guarded_answer<Status>("put", key, [&]() -> Status {
    const Status answer = store_.put(key, value);
    return answer.ok() ? answer : failed_store("put", key, answer);
  });
}

Result<std::string> GuardedStore::get(const std::string& key, std::chrono::nanoseconds limit) {
  return guarded_answer<Result<std::string>>("get", key, [&]() -> Result<std::string> {
    auto answer = store_.get(key, limit);
    if (answer || answer.error().code() == ErrorCode::timeout) return answer;  // nobody has published it yet
    if (answer.error().ok())
      return wrong_store(ErrorCode::invalid_argument, "get", key, "answered neither a value nor an error");
    return failed_store("get", key, answer.error());
  });
}

}  // namespace fabring

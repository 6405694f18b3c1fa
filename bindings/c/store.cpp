#include "bindings/c/store.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace fabring::c_api {
namespace {

constexpr std::size_t most_value_bytes = 1024;

Status failed(const char* function, const std::string& key, std::int32_t code) {
  const bool known = code > 0 && code <= static_cast<std::int32_t>(last_error_code);
  const ErrorCode meant = known ? static_cast<ErrorCode>(code) : ErrorCode::internal;
  return {meant, fmt::format("the store's {} of '{}' failed: {}", function, key,
                             known ? std::string(name(meant)) : fmt::format("it answered {}, which is no code", code))};
}

}  // namespace

Status CallersStore::put(const std::string& key, const std::string& value) {
  const std::int32_t code = functions_.put(functions_.context, key.c_str(), value.data(), value.size());
  return code == FABRING_STATUS_OK ? Status() : failed("put", key, code);
}

Result<std::string> CallersStore::get(const std::string& key, std::chrono::nanoseconds limit) {
  std::string value(most_value_bytes, '\0');
  std::size_t size = 0;
  const auto nanoseconds = static_cast<std::uint64_t>(std::max<std::int64_t>(limit.count(), 0));
  const std::int32_t code =
      functions_.get(functions_.context, key.c_str(), nanoseconds, value.data(), value.size(), &size);
  if (code != FABRING_STATUS_OK) return failed("get", key, code);
  if (size > value.size())
    return Status(
        ErrorCode::invalid_argument,
        fmt::format("the store's get of '{}' says that it wrote {} bytes where {} had room", key, size, value.size()));
  value.resize(size);
  return value;
}

}  // namespace fabring::c_api

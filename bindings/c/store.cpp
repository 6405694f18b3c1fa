#include "bindings/c/store.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace fabring::c_api {
namespace {

constexpr std::size_t most_value_bytes = 1024;

// Who uses the store says which function it was, and of which key.
Status answered(std::int32_t code) {
  if (code == FABRING_STATUS_OK) return {};
  if (code > 0 && code <= static_cast<std::int32_t>(last_error_code))
    return {static_cast<ErrorCode>(code), fmt::format("it answered {}", name(static_cast<ErrorCode>(code)))};
  return {ErrorCode::invalid_argument,
          fmt::format("it answered {}, which is no fabring_status_code; return FABRING_STATUS_UNAVAILABLE where the "
                      "store fails",
                      code)};
}

}  // namespace

Status CallersStore::put(const std::string& key, const std::string& value) {
  return answered(functions_.put(functions_.context, key.c_str(), value.data(), value.size()));
}

Result<std::string> CallersStore::get(const std::string& key, std::chrono::nanoseconds limit) {
  std::string value(most_value_bytes, '\0');
  std::size_t size = 0;
  const auto nanoseconds = static_cast<std::uint64_t>(std::max<std::int64_t>(limit.count(), 0));
  FABRING_TRY(
      answered(functions_.get(functions_.context, key.c_str(), nanoseconds, value.data(), value.size(), &size)));
  if (size > value.size())
    return Status(ErrorCode::invalid_argument,
                  fmt::format("it says that it wrote {} bytes where {} had room", size, value.size()));
  value.resize(size);
  return value;
}

}  // namespace fabring::c_api

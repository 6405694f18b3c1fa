#include "bindings/c/answer.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "bindings/c/structs.hpp"

namespace fabring::c_api {
namespace {

template <std::size_t size>
void put(char (&into)[size], std::string_view text) {
  const std::size_t length = std::min(text.size(), size - 1);
  std::copy_n(text.data(), length, into);
  into[length] = '\0';
}

fabring_status_code write(fabring_error* error, ErrorCode code, std::string_view message, const ErrorContext& context) {
  if (error == nullptr) return static_cast<fabring_status_code>(code);
  fabring_error filled = FABRING_ERROR_INIT;
  filled.code = static_cast<std::int32_t>(code);
  filled.rank = context.rank;
  filled.sequence = context.sequence;
  filled.bytes = context.bytes;
  put(filled.host, context.host);
  put(filled.collective, context.collective);
  put(filled.message, message);
  write_struct(filled, error);
  return static_cast<fabring_status_code>(code);
}

}  // namespace

bool is_usable(const fabring_error* error) noexcept {
  return error == nullptr || has_known_size<fabring_error>(size_of_struct(error));
}

Status error_not_initialised() {
  return {ErrorCode::invalid_argument, "the fabring_error was not initialised; initialise it with FABRING_ERROR_INIT"};
}

fabring_status_code report(fabring_error* error, const Status& status) noexcept {
  return write(error, status.code(), status.message(), status.context());
}

fabring_status_code report(fabring_error* error, ErrorCode code, const char* message) noexcept {
  return write(error, code, message, {});
}

Status no_memory() { return {ErrorCode::out_of_memory, no_memory_text}; }

Status null_argument(const char* name) {
  return {ErrorCode::invalid_argument, std::string("the argument '") + name + "' is null"};
}

}  // namespace fabring::c_api

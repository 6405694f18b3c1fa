#include "bindings/c/handles.hpp"

#include <algorithm>

namespace fabring::c_api {

Status wrong_handle(const char* name) {
  return {ErrorCode::invalid_argument,
          std::string("the argument '") + name + "' is a handle of another kind, or one that was freed"};
}

Status give_text(std::string_view text, char* into, std::size_t size, std::size_t* needed) {
  if (into == nullptr && size > 0) return null_argument("text");
  if (needed != nullptr) *needed = text.size();
  if (size == 0) return {};
  const std::size_t length = std::min(text.size(), size - 1);
  std::copy_n(text.data(), length, into);
  into[length] = '\0';
  return {};
}

}  // namespace fabring::c_api

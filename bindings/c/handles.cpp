#include "bindings/c/handles.hpp"

#include <algorithm>
#include <string>

#include "bindings/c/operation.hpp"

namespace fabring::c_api {

Status wrong_handle(const char* name) {
  return {ErrorCode::invalid_argument,
          std::string("the argument '") + name + "' is a handle of another kind, or one that was freed"};
}

Status check_own(const fabring_engine* engine) {
  FABRING_TRY(check_handle(engine, "engine"));
  return engine->origin.is_here() ? Status() : engine->value->world().health();
}

Status check_own(const fabring_comm* comm) {
  FABRING_TRY(check_handle(comm, "comm"));
  return comm->origin.is_here() ? Status() : comm->value.health();
}

Status check_own(const fabring_work* work) {
  FABRING_TRY(check_handle(work, "work"));
  return work->origin.is_here() ? Status() : work->value.status();
}

Status refuse(fabring_comm* comm, const Operation& operation, const Status& why) {
  return comm->value.refused(operation, in_collective(operation, why));
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

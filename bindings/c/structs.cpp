#include "bindings/c/structs.hpp"

#include <fmt/format.h>

namespace fabring::c_api {

static_assert(sizeof(fabring_error) == 32 + 256 + 32 + 1024);
static_assert(sizeof(fabring_traffic) == sizeof(std::size_t) + 5 * 8);
static_assert(sizeof(fabring_received) == 2 * sizeof(std::size_t) + 8);
static_assert(sizeof(fabring_store) == sizeof(std::size_t) + 3 * sizeof(void*));
static_assert(offsetof(fabring_operation, reserved) + sizeof(std::int32_t) == sizeof(fabring_operation));
static_assert(sizeof(fabring_tensor) == 3 * 8);
static_assert(sizeof(fabring_operation) == 3 * 8 + 8 + 6 * 4 + 4 * 8 + 6 * 8 + 2 * 4 + 2 * 8 + 2 * 4,
              "a hole would be read as a field");

Status bad_size(const char* name, std::size_t size, std::size_t least, const char* initialiser) {
  return {ErrorCode::invalid_argument,
          fmt::format("the struct_size of a {} is {}, but {} to {} in steps of {} are possible; initialise it with {}",
                      name, size, least, most_size, alignof(std::size_t), initialiser)};
}

Status unknown_fields(const char* name, std::size_t at) {
  return {
      ErrorCode::invalid_argument,
      fmt::format("a {} has something at byte {}, which this version of Fabring ({}) does not know; set to zero what "
                  "newer versions have added, or load a newer Fabring",
                  name, at, fabring_version())};
}

}  // namespace fabring::c_api

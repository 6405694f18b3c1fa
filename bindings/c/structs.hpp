#pragma once
// Structures that cross the C boundary start with their size, so that callers and library may be of different versions.
// They hold no padding, so that what lies behind a size is a field or nothing.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>

#include "fabring/fabring.h"
#include "fabring/status.hpp"

namespace fabring::c_api {

/// Bytes that callers of every version have; fields after them may be missing. Never raised, whatever is added:
/// programs that were compiled with the first release go on working.
template <class Struct>
inline constexpr std::size_t least_size = 0;
template <>
inline constexpr std::size_t least_size<fabring_error> = 1344;
template <>
inline constexpr std::size_t least_size<fabring_traffic> = 48;
template <>
inline constexpr std::size_t least_size<fabring_received> = 24;
template <>
inline constexpr std::size_t least_size<fabring_store> = 32;
template <>
inline constexpr std::size_t least_size<fabring_operation> = 56;

/// More is no structure of any version, but memory that was never initialised.
inline constexpr std::size_t most_size = 16384;

template <class Struct>
std::size_t size_of_struct(const Struct* from) {
  std::size_t size;
  std::memcpy(&size, from, sizeof size);  // of another version, so not to be looked at as ours
  return size;
}

/// Whole fields, and a number of bytes that a version may have.
template <class Struct>
constexpr bool has_known_size(std::size_t size) {
  static_assert(least_size<Struct> > 0 && least_size<Struct> <= sizeof(Struct), "a structure only grows");
  return size >= least_size<Struct> && size <= most_size && size % alignof(Struct) == 0;
}

/// "the struct_size of a fabring_operation is 3, but 56 to 16384 in steps of 8 are possible; initialise it with ..."
Status bad_size(const char* name, std::size_t size, std::size_t least, const char* initialiser);
/// "a fabring_operation has something at byte 216, which this version of Fabring (0.1.0) does not know; ..."
Status unknown_fields(const char* name, std::size_t at);

/// Takes what a caller of any version has given: what an older one does not know keeps its default; what a newer one
/// asks for and we do not know is an error.
template <class Struct>
Status read_struct(const Struct* from, const char* name, const char* initialiser, Struct& into) {
  static_assert(std::is_trivially_copyable_v<Struct>);
  const std::size_t size = size_of_struct(from);
  if (!has_known_size<Struct>(size)) return bad_size(name, size, least_size<Struct>, initialiser);
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  for (std::size_t at = sizeof(Struct); at < size; ++at)
    if (bytes[at] != 0) return unknown_fields(name, at);
  std::memcpy(&into, from, std::min(size, sizeof(Struct)));
  return {};
}

/// Gives what a caller of this version has room for; its struct_size stays.
template <class Struct>
void write_struct(const Struct& from, Struct* into) {
  static_assert(std::is_trivially_copyable_v<Struct>);
  const std::size_t size = std::min(size_of_struct(into), sizeof(Struct));
  constexpr std::size_t head = sizeof(std::size_t);
  std::memcpy(reinterpret_cast<unsigned char*>(into) + head, reinterpret_cast<const unsigned char*>(&from) + head,
              size - head);
}

/// write_struct, for a structure that nobody has looked at yet.
template <class Struct>
Status give_struct(const Struct& from, const char* name, const char* initialiser, Struct* into) {
  const std::size_t size = size_of_struct(into);
  if (!has_known_size<Struct>(size)) return bad_size(name, size, least_size<Struct>, initialiser);
  write_struct(from, into);
  return {};
}

}  // namespace fabring::c_api

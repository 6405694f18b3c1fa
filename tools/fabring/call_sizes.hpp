#pragma once
// What call is meant by a size in bytes: `fabring perf` measures it and `fabring simulate` predicts it, and both say so
// where it is not of just as many bytes.

#include <cstdint>
#include <string>
#include <string_view>

namespace fabring::tools {

/// Whole elements, one at least, and where ranks have blocks as many in each of the `blocks` (else 1); 0 stays 0.
std::uint64_t bytes_of_call(std::uint64_t asked, std::uint64_t element_bytes, std::uint64_t blocks);

/// "1023 B is measured as 1020 B, whole elements of float32". `done`: "measured"; `element`: "float32".
std::string changed_size(std::uint64_t asked, std::uint64_t bytes, std::uint64_t blocks, std::string_view done,
                         std::string_view element);

}  // namespace fabring::tools

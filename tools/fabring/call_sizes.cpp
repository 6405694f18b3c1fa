#include "tools/fabring/call_sizes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/parse_value.hpp"

namespace fabring::tools {

std::uint64_t bytes_of_call(std::uint64_t asked, std::uint64_t element_bytes, std::uint64_t blocks) {
  const std::uint64_t least = element_bytes * std::max<std::uint64_t>(blocks, 1);
  return asked == 0 ? 0 : std::max<std::uint64_t>(asked / least, 1) * least;
}

std::string changed_size(std::uint64_t asked, std::uint64_t bytes, std::uint64_t blocks, std::string_view done,
                         std::string_view element) {
  std::string why = fmt::format("{} of {}", bytes > asked ? "one element" : "whole elements", element);
  if (blocks > 1) why = bytes > asked ? "one element for each rank" : "equal blocks of " + why;
  return fmt::format("{} is {} as {}, {}", size_text(asked), done, size_text(bytes), why);
}

}  // namespace fabring::tools

// Numbers, sizes, times, flags and lists, as settings and options have them.

#include "runtime/base/parse_value.hpp"

#include "tests/fuzz/round_trip.hpp"

namespace fabring::fuzz::values {
namespace {
template <class T>
void typed(const Result<T>& read) {
  if (read) return;
  require(read.error().code() == ErrorCode::invalid_argument, "what is refused is an invalid argument");
  require(!read.error().message().empty(), "and says why");
}
}  // namespace

void run(std::string_view input) {
  const auto integer = parse_integer(input, -5, 1'000'000);
  typed(integer);
  if (integer) require(*integer >= -5 && *integer <= 1'000'000, "a number is in its range");
  const auto size = parse_size(input);
  typed(size);
  if (size) {
    const auto again = parse_size(size_text(*size));
    require(again && *again == *size, "a size stays what it is");
  }
  const auto duration = parse_duration(input);
  typed(duration);
  if (duration) {
    const auto again = parse_duration(duration_text(*duration));
    require(again && *again == *duration && duration->count() > 0, "a duration stays what it is");
  }
  typed(parse_flag(input));
  const auto list = parse_list(input);
  typed(list);
  if (list) {
    std::string joined;
    for (const std::string& item : *list) {
      require(!item.empty(), "no item is empty");
      joined += (joined.empty() ? "" : ",") + item;
    }
    const auto again = parse_list(joined);
    require(again && *again == *list, "a list stays what it is");
  }
}

Seeds seeds() {
  return {"30",  "500ms", "1.5h",    "10 min",           "64K",       "512KiB", "1.5 M", "2G", "yes",
          "off", "-3",    "a,b , c", "9007199254740992", "0.000001d", ".",      "1e5"};
}

}  // namespace fabring::fuzz::values

// Slurm's host list grammar, as `scontrol show hostnames` takes it: names separated by commas outside brackets;
// brackets hold numbers and ranges, padding kept; several brackets multiply. Text after the last bracket is allowed.

#include <fmt/format.h>

#include "runtime/base/parse_value.hpp"
#include "runtime/bootstrap/launch_environment.hpp"

namespace fabring {
namespace {

Status bad(std::string_view text, std::string why) {
  return {ErrorCode::invalid_argument, fmt::format("'{}' is not a host list: {}", text.substr(0, 200), why)};
}

// "01-03,7" -> 01 02 03 7, at most `limit`.
Status expand_numbers(std::string_view inside, std::size_t limit, std::vector<std::string>& out) {
  auto items = parse_list(inside);
  if (!items) return items.error();
  for (const std::string& item : *items) {
    const std::size_t dash = item.find('-');
    const std::string low = item.substr(0, dash);
    const std::string high = dash == std::string::npos ? low : item.substr(dash + 1);
    auto first = parse_integer(low, 0, 999'999'999);
    auto last = parse_integer(high, 0, 999'999'999);
    if (!first || !last || *last < *first)
      return {ErrorCode::invalid_argument, fmt::format("'{}' is not a number or a rising range", item)};
    const std::size_t digits = std::min<std::size_t>(low.size(), 9);
    for (std::int64_t n = *first; n <= *last && out.size() < limit; ++n)
      out.push_back(fmt::format("{:0{}}", n, digits));
  }
  return {};
}

}  // namespace

Result<std::vector<std::string>> expand_host_list(std::string_view text, std::size_t limit) {
  std::vector<std::string> hosts;
  std::vector<std::string> current{""};
  bool in_name = false;
  const auto flush = [&] {
    for (std::string& host : current)
      if (hosts.size() < limit) hosts.push_back(std::move(host));
    current.assign(1, "");
    in_name = false;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == ',') {
      if (!in_name) return bad(text, "an empty name");
      flush();
    } else if (c == '[') {
      const std::size_t close = text.find(']', i);
      if (close == std::string_view::npos) return bad(text, "a [ without its ]");
      std::vector<std::string> numbers;
      if (Status status = expand_numbers(text.substr(i + 1, close - i - 1), limit, numbers); !status)
        return bad(text, status.message());
      std::vector<std::string> product;
      for (const std::string& stem : current)
        for (const std::string& number : numbers)
          if (product.size() < limit) product.push_back(stem + number);
      current = std::move(product);
      in_name = true;
      i = close;
    } else if (c == ']' || static_cast<unsigned char>(c) <= ' ' || c == 0x7f) {
      return bad(text, c == ']' ? "a ] without its [" : "a blank or control character");
    } else {
      for (std::string& stem : current) {
        if (stem.size() >= 255) return bad(text, "a name longer than 255 characters");
        stem += c;
      }
      in_name = true;
    }
  }
  if (!in_name) return bad(text, "an empty name");
  flush();
  return hosts;
}

}  // namespace fabring

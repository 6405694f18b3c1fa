#include "tools/fabring/option_checks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "runtime/base/parse_value.hpp"

namespace fabring::tools {
namespace {

// HelpText tells what a value may be from what it is called by "[".
template <class Number>
CLI::Validator within(Number low, Number high, const char* kind) {
  const auto check = [=](const std::string& text) {
    Number value{};
    const char* end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, value);
    const bool good = read.ec == std::errc{} && read.ptr == end && value >= low && value <= high;  // NaN is not
    return good ? std::string() : fmt::format("'{}' is not {} from {} to {}", text, kind, low, high);
  };
  return {check, fmt::format("[{} to {}]", low, high)};
}

}  // namespace

CLI::Validator between(int low, int high) { return within(low, high, "a whole number"); }

CLI::Validator between(std::int64_t low, std::int64_t high) { return within(low, high, "a whole number"); }

CLI::Validator between(double low, double high) { return within(low, high, "a number"); }

CLI::Validator above(double low) {
  const auto check = [low](const std::string& text) {
    double value = 0;
    const char* end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, value);
    const bool good = read.ec == std::errc{} && read.ptr == end && value > low && std::isfinite(value);
    return good ? std::string() : fmt::format("'{}' is not a number above {:g}", text, low);
  };
  return {check, ""};
}

CLI::Validator a_duration() {
  const auto check = [](const std::string& text) {
    const auto duration = parse_duration(text);
    return duration ? std::string() : duration.error().message();
  };
  return {check, ""};
}

CLI::Validator one_of(std::vector<std::string> words) {
  const auto check = [words = std::move(words)](const std::string& text) {
    const bool good = std::find(words.begin(), words.end(), text) != words.end();
    return good ? std::string() : fmt::format("'{}' is none of {}", text, fmt::join(words, ", "));
  };
  return {check, ""};
}

}  // namespace fabring::tools

#include "limit.hpp"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "bindings/whole_text.hpp"
#include "config.hpp"
#include "failure.hpp"

namespace fabring_torch {
namespace {

constexpr const char* setting = "FABRING_RENDEZVOUS_TIMEOUT";

const char* given_limit() {
  const char* const given = std::getenv(setting);
  return given == nullptr || *given == '\0' ? nullptr : given;
}

}  // namespace

std::string Limit::text() const {
  return c10::str(time.count(), " ms (", is_setting ? setting : "the timeout of the group", ")");
}

std::optional<std::chrono::milliseconds> duration_of(std::string_view text) {
  std::int64_t count = 0;
  const char* const end = text.data() + text.size();
  const auto [unit, wrong] = std::from_chars(text.data(), end, count);
  for (const auto& [name, milliseconds] :
       {std::pair<std::string_view, std::int64_t>{" ms", 1}, {" s", 1000}, {" min", 60'000}, {" h", 3'600'000}})
    if (wrong == std::errc() && name == std::string_view(unit, static_cast<std::size_t>(end - unit)))
      return std::chrono::milliseconds(count * milliseconds);
  return std::nullopt;
}

// The setting is read by those who know how people write durations, and comes back as duration_of() reads it.
Limit rendezvous_limit(std::chrono::milliseconds group_timeout) {
  const char* const given = given_limit();
  if (given == nullptr) return {group_timeout, false};
  Config config;
  config.set(setting, given);
  const std::string text = fabring::bindings::whole_text(
      [&](char* to, std::size_t size, std::size_t* needed, fabring_error* error) {
        return fabring_config_get(config.handle, setting, to, size, needed, error);
      },
      check);
  if (const auto time = duration_of(text)) return {*time, true};
  TORCH_CHECK(false, "fabring: ", setting, " is '", given, "', which reads '", text, "'");
}

std::string limit_note() {
  return given_limit() != nullptr ? "" : c10::str("; ", setting, " is not set: it is the timeout of the group");
}

}  // namespace fabring_torch

// fabring_config: the settings by their names, and who gets the log.

#include <string>
#include <string_view>

#include "bindings/c/config.hpp"

#include "bindings/c/handles.hpp"
#include "runtime/base/settings.hpp"

namespace fabring::c_api {
namespace {

LogSink to_sink(fabring_log_function function, void* context) {
  if (function == nullptr) return {};
  return [function, context](LogLevel level, int rank, std::string_view text) {
    function(context, static_cast<fabring_log_level>(level), rank, std::string(text).c_str());
  };
}

}  // namespace

Status give_setting(const Config& from, const char* name, char* text, std::size_t size, std::size_t* needed) {
  if (name == nullptr) return null_argument("name");
  const auto row = known_setting(name);
  if (!row) return row.error();
  return give_text((*row)->show(from), text, size, needed);
}

}  // namespace fabring::c_api

using namespace fabring::c_api;
using fabring::Status;

fabring_status_code fabring_config_create(fabring_config** config, fabring_error* error) {
  return make_handle(config, "config", error, [] { return fabring::Result<fabring::Config>(fabring::Config()); });
}

fabring_status_code fabring_config_create_from_environment(fabring_config** config, fabring_error* error) {
  return make_handle(config, "config", error, [] { return fabring::Config::from_environment(); });
}

fabring_status_code fabring_config_set(fabring_config* config, const char* name, const char* value,
                                       fabring_error* error) {
  return answer(error, [&]() -> Status {
    FABRING_TRY(check_handle(config, "config"));
    if (name == nullptr) return null_argument("name");
    if (value == nullptr) return null_argument("value");
    return fabring::apply_setting(std::string_view(name), value, config->value);
  });
}

fabring_status_code fabring_config_get(const fabring_config* config, const char* name, char* text, std::size_t size,
                                       std::size_t* needed, fabring_error* error) {
  return answer(error, [&]() -> Status {
    FABRING_TRY(check_handle(config, "config"));
    return give_setting(config->value, name, text, size, needed);
  });
}

fabring_status_code fabring_config_set_log(fabring_config* config, fabring_log_function function, void* context,
                                           fabring_error* error) {
  return answer(error, [&]() -> Status {
    FABRING_TRY(check_handle(config, "config"));
    config->value.log_sink = to_sink(function, context);
    return {};
  });
}

fabring_status_code fabring_config_free(fabring_config* config) { return free_handle(config, "config"); }

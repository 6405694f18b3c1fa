// fabring_engine.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bindings/c/config.hpp"
#include "bindings/c/handles.hpp"
#include "bindings/c/store.hpp"
#include "bindings/c/structs.hpp"

using namespace fabring::c_api;
using fabring::Status;

namespace {

Status read_store(const fabring_store* store, fabring_store& given) {
  if (store == nullptr) return null_argument("store");
  FABRING_TRY(read_struct(store, "fabring_store", "FABRING_STORE_INIT", given));
  if (given.put == nullptr || given.get == nullptr) return null_argument(given.put == nullptr ? "put" : "get");
  return {};
}

}  // namespace

fabring_status_code fabring_engine_create(const fabring_config* config, fabring_engine** engine, fabring_error* error) {
  return make_handle(engine, "engine", error, [&]() -> fabring::Result<std::unique_ptr<fabring::Engine>> {
    FABRING_TRY(check_handle(config, "config"));
    return fabring::Engine::create(config->value);
  });
}

fabring_status_code fabring_engine_create_from_environment(fabring_engine** engine, fabring_error* error) {
  return make_handle(engine, "engine", error, [] { return fabring::Engine::from_environment(); });
}

fabring_status_code fabring_engine_create_with_store(const fabring_config* config, const fabring_store* store,
                                                     fabring_engine** engine, fabring_error* error) {
  return make_handle(engine, "engine", error, [&]() -> fabring::Result<std::unique_ptr<fabring::Engine>> {
    FABRING_TRY(check_handle(config, "config"));
    fabring_store given = FABRING_STORE_INIT;
    FABRING_TRY(read_store(store, given));
    CallersStore callers(given);
    return fabring::Engine::create(config->value, callers);
  });
}

fabring_status_code fabring_store_decline(const fabring_store* store, std::int32_t rank, std::int32_t code,
                                          const char* reason, fabring_error* error) {
  return answer(error, [&]() -> Status {
    fabring_store given = FABRING_STORE_INIT;
    FABRING_TRY(read_store(store, given));
    if (reason == nullptr) return null_argument("reason");
    if (code <= 0 || code > static_cast<std::int32_t>(fabring::last_error_code))
      return {fabring::ErrorCode::invalid_argument, fmt::format("code: {} is no error", code)};
    CallersStore callers(given);
    return fabring::Engine::decline(callers, rank, Status(static_cast<fabring::ErrorCode>(code), reason));
  });
}

fabring_status_code fabring_engine_world(fabring_engine* engine, fabring_comm** world, fabring_error* error) {
  return make_handle(world, "world", error, [&]() -> fabring::Result<fabring::Communicator> {
    FABRING_TRY(check_handle(engine, "engine"));
    return engine->value->world();
  });
}

fabring_status_code fabring_engine_leave(fabring_engine* engine, fabring_error* error) {
  return act_anyway(error, [&]() -> Status {
    FABRING_TRY(check_handle(engine, "engine"));
    return engine->value->leave();
  });
}

fabring_status_code fabring_engine_destroy(fabring_engine* engine) { return free_handle(engine, "engine"); }

fabring_status_code fabring_engine_traffic(const fabring_engine* engine, fabring_traffic* traffic,
                                           fabring_error* error) {
  return answer(error, [&]() -> Status {
    FABRING_TRY(check_own(engine));
    if (traffic == nullptr) return null_argument("traffic");
    const fabring::Traffic counted = engine->value->traffic();
    fabring_traffic given = FABRING_TRAFFIC_INIT;
    given.payload_bytes_sent = counted.payload_bytes_sent;
    given.payload_bytes_received = counted.payload_bytes_received;
    given.wire_bytes_sent = counted.wire_bytes_sent;
    given.wire_bytes_received = counted.wire_bytes_received;
    given.messages_sent = counted.messages_sent;
    return give_struct(given, "fabring_traffic", "FABRING_TRAFFIC_INIT", traffic);
  });
}

fabring_status_code fabring_engine_report(const fabring_engine* engine, char* text, std::size_t size,
                                          std::size_t* needed, fabring_error* error) {
  return answer(error, [&]() -> Status {
    FABRING_TRY(check_handle(engine, "engine"));
    return give_text(fmt::format("{}", fmt::join(engine->value->report(), "\n")), text, size, needed);
  });
}

fabring_status_code fabring_engine_setting(const fabring_engine* engine, const char* name, char* text, std::size_t size,
                                           std::size_t* needed, fabring_error* error) {
  return answer(error, [&]() -> Status {
    FABRING_TRY(check_handle(engine, "engine"));
    return give_setting(engine->value->config(), name, text, size, needed);
  });
}

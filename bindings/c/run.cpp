// Operations as values: run, started, prepared, in groups; and what is under way.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <vector>

#include "bindings/c/handles.hpp"
#include "bindings/c/operation.hpp"
#include "bindings/c/structs.hpp"

namespace fabring::c_api {
namespace {

std::string explanation(const Choice& choice) {
  std::string text = fmt::format("{}: {}", choice.algorithm, choice.reason);
  for (const Choice::Candidate& one : choice.candidates)
    text += one.excluded.empty() ? fmt::format("\n{} {:.1f} us", one.algorithm, one.predicted_us)
                                 : fmt::format("\n{} left out: {}", one.algorithm, one.excluded);
  return text;
}

/// Begins with `body`, which returns a Work. The handle is made first: what is under way must not be lost for memory.
template <class Body>
Status begin(fabring_work** work, Body&& body) {
  auto handle = std::make_unique<fabring_work>(Work());
  handle->value = body();
  FABRING_TRY(handle->value.status());
  *work = handle.release();
  return {};
}

Status in_call(const char* call, const Status& error) { return error.with_prefix(fmt::format("{}: ", call)); }

/// What answer_or_refuse() refuses with: the outline is made only if there is something to tell.
auto refusing(fabring_comm* comm, const fabring_operation* operation) {
  return [=](const Status& why) { return refuse(comm, outline_of(operation), why); };
}

auto refusing(fabring_comm* comm, const fabring_operation* operations, std::size_t count) {
  return [=](const Status& why) {
    Status told = why;
    for (const Operation& one : outlines_of(operations, count)) told = comm->value.refused(one, why);
    return told;
  };
}

auto refusing(fabring_prepared* prepared) {
  return [=](const Status& why) {
    prepared->value.refused(why);
    return why;
  };
}

Result<Operation> operation_of(const char* call, const fabring_comm* comm, const fabring_operation* operation,
                               TensorLists& lists) {
  if (operation == nullptr) return null_argument("operation");
  auto made = to_operation(operation, comm->value.size(), lists);
  return made ? std::move(made) : in_call(call, made.error());
}

Result<std::vector<Operation>> operations_of(const char* call, const fabring_comm* comm,
                                             const fabring_operation* operations, std::size_t count,
                                             TensorLists& lists) {
  if (operations == nullptr && count > 0) return null_argument("operations");
  auto made = to_operations(operations, count, comm->value.size(), lists);
  return made ? std::move(made) : in_call(call, made.error());
}

}  // namespace
}  // namespace fabring::c_api

using namespace fabring::c_api;
using fabring::Status;

fabring_status_code fabring_run(fabring_comm* comm, const fabring_operation* operation, fabring_error* error) {
  const auto refuse_it = refusing(comm, operation);
  return answer_or_refuse(comm, "comm", error, refuse_it, [&]() -> Status {
    TensorLists lists;
    const auto made = operation_of("fabring_run", comm, operation, lists);
    return made ? comm->value.run(*made) : refuse_it(made.error());
  });
}

fabring_status_code fabring_start(fabring_comm* comm, const fabring_operation* operation, fabring_work** work,
                                  fabring_error* error) {
  if (work != nullptr) *work = nullptr;
  const auto refuse_it = refusing(comm, operation);
  return answer_or_refuse(comm, "comm", error, refuse_it, [&]() -> Status {
    if (work == nullptr) return refuse_it(null_argument("work"));
    TensorLists lists;
    const auto made = operation_of("fabring_start", comm, operation, lists);
    if (!made) return refuse_it(made.error());
    return begin(work, [&] { return comm->value.start(*made); });
  });
}

fabring_status_code fabring_run_group(fabring_comm* comm, const fabring_operation* operations, std::size_t count,
                                      fabring_error* error) {
  const auto refuse_them = refusing(comm, operations, count);
  return answer_or_refuse(comm, "comm", error, refuse_them, [&]() -> Status {
    TensorLists lists;
    const auto made = operations_of("fabring_run_group", comm, operations, count, lists);
    return made ? comm->value.run_group(*made) : refuse_them(made.error());
  });
}

fabring_status_code fabring_start_group(fabring_comm* comm, const fabring_operation* operations, std::size_t count,
                                        fabring_work** works, fabring_error* error) {
  if (works != nullptr && count <= most_of_group) std::fill_n(works, count, nullptr);
  const auto refuse_them = refusing(comm, operations, count);
  return answer_or_refuse(comm, "comm", error, refuse_them, [&]() -> Status {
    TensorLists lists;
    const auto made = operations_of("fabring_start_group", comm, operations, count, lists);
    if (!made) return refuse_them(made.error());
    if (works == nullptr && count > 0) return refuse_them(null_argument("works"));
    std::vector<std::unique_ptr<fabring_work>> handles;
    for (std::size_t i = 0; i < count; ++i) handles.push_back(std::make_unique<fabring_work>(fabring::Work()));
    std::vector<fabring::Work> started = comm->value.start_group(*made);
    for (std::size_t i = 0; i < count; ++i) {
      handles[i]->value = std::move(started[i]);
      works[i] = handles[i].release();
    }
    return {};
  });
}

fabring_status_code fabring_prepare(fabring_comm* comm, const fabring_operation* operation, fabring_prepared** prepared,
                                    fabring_error* error) {
  if (prepared != nullptr) *prepared = nullptr;
  const auto refuse_it = refusing(comm, operation);
  return answer_or_refuse(comm, "comm", error, refuse_it, [&]() -> Status {
    if (prepared == nullptr) return refuse_it(null_argument("prepared"));
    TensorLists lists;
    const auto made = operation_of("fabring_prepare", comm, operation, lists);
    if (!made) return refuse_it(made.error());
    return give_handle(comm->value.prepare(*made), prepared);
  });
}

fabring_status_code fabring_explain(const fabring_comm* comm, const fabring_operation* operation, char* text,
                                    std::size_t size, std::size_t* needed, fabring_error* error) {
  return answer(error, [&]() -> Status {
    FABRING_TRY(check_handle(comm, "comm"));
    TensorLists lists;
    const auto made = operation_of("fabring_explain", comm, operation, lists);
    if (!made) return made.error();
    const fabring::Choice choice = comm->value.explain(*made);
    FABRING_TRY(choice.status);
    return give_text(explanation(choice), text, size, needed);
  });
}

fabring_status_code fabring_prepared_run(fabring_prepared* prepared, fabring_error* error) {
  return answer_or_refuse(prepared, "prepared", error, refusing(prepared), [&] { return prepared->value.run(); });
}

fabring_status_code fabring_prepared_start(fabring_prepared* prepared, fabring_work** work, fabring_error* error) {
  if (work != nullptr) *work = nullptr;
  const auto refuse_it = refusing(prepared);
  return answer_or_refuse(prepared, "prepared", error, refuse_it, [&]() -> Status {
    if (work == nullptr) return refuse_it(null_argument("work"));
    return begin(work, [&] { return prepared->value.start(); });
  });
}

fabring_status_code fabring_prepared_start_on(fabring_prepared* prepared, void* stream, fabring_work** work,
                                              fabring_error* error) {
  if (work != nullptr) *work = nullptr;
  const auto refuse_it = refusing(prepared);
  return answer_or_refuse(prepared, "prepared", error, refuse_it, [&]() -> Status {
    if (work == nullptr) return refuse_it(null_argument("work"));
    return begin(work, [&] { return prepared->value.start_on(stream); });
  });
}

fabring_status_code fabring_prepared_free(fabring_prepared* prepared) { return free_handle(prepared, "prepared"); }

fabring_status_code fabring_work_wait(fabring_work* work, fabring_error* error) {
  return act_anyway(error, [&]() -> Status {
    FABRING_TRY(check_handle(work, "work"));
    return work->value.wait();
  });
}

fabring_status_code fabring_work_wait_for(fabring_work* work, std::uint64_t nanoseconds, fabring_error* error) {
  return act_anyway(error, [&]() -> Status {
    FABRING_TRY(check_handle(work, "work"));
    constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
    return work->value.wait_for(std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(nanoseconds, most))));
  });
}

fabring_status_code fabring_work_done(fabring_work* work, int* done, fabring_error* error) {
  return answer(error, [&]() -> Status {
    FABRING_TRY(check_own(work));
    if (done == nullptr) return null_argument("done");
    *done = work->value.done() ? 1 : 0;
    return {};
  });
}

fabring_status_code fabring_work_status(const fabring_work* work, fabring_error* error) {
  return answer(error, [&]() -> Status {
    FABRING_TRY(check_handle(work, "work"));
    return work->value.status();
  });
}

fabring_status_code fabring_work_received(fabring_work* work, fabring_received* received, fabring_error* error) {
  return answer(error, [&]() -> Status {
    FABRING_TRY(check_own(work));
    if (received == nullptr) return null_argument("received");
    if (!work->value.done())
      return {fabring::ErrorCode::invalid_argument, "the receive is not done; wait for it first"};
    const fabring::Received got = work->value.received();
    fabring_received given = FABRING_RECEIVED_INIT;
    given.source = got.source;
    given.tag = got.tag;
    given.count = got.count;
    return give_struct(given, "fabring_received", "FABRING_RECEIVED_INIT", received);
  });
}

fabring_status_code fabring_work_notify(fabring_work* work, void (*function)(void*), void* context,
                                        fabring_error* error) {
  return answer(error, [&]() -> Status {
    FABRING_TRY(check_own(work));
    if (function == nullptr) return null_argument("function");
    work->value.notify(function, context);
    return {};
  });
}

fabring_status_code fabring_work_free(fabring_work* work) { return free_handle(work, "work"); }

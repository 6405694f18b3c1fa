// The short forms of fabring_run.

#include <string>

#include "bindings/c/handles.hpp"
#include "bindings/c/operation.hpp"

namespace fabring::c_api {
namespace {

Status take(const char* call, fabring_data_type type, DataType& into) {
  const Status taken = to_data_type(type, into);
  return taken.ok() ? taken : taken.with_prefix(std::string(call) + ", the argument type: ");
}

Status take(const char* call, fabring_reduce_op op, ReduceOp& into) {
  const Status taken = to_reduce_op(op, into);
  return taken.ok() ? taken : taken.with_prefix(std::string(call) + ", the argument op: ");
}

/// The others may wait in it.
Status refuse(fabring_comm* comm, const Operation& operation, const Status& why) {
  comm->value.refused(operation, why);
  return why;
}

/// Runs what `make` returns for the type.
template <class Make>
fabring_status_code run(const char* call, fabring_comm* comm, fabring_data_type type, fabring_error* error,
                        Make&& make) noexcept {
  return act(error, [&]() -> Status {
    FABRING_TRY(check_handle(comm, "comm"));
    DataType known{};
    if (!is_usable(error)) return refuse(comm, make(known), error_not_initialised());
    if (const Status taken = take(call, type, known); !taken.ok()) return refuse(comm, make(known), taken);
    return comm->value.run(make(known));
  });
}

/// The same for those that reduce.
template <class Make>
fabring_status_code run(const char* call, fabring_comm* comm, fabring_data_type type, fabring_reduce_op op,
                        fabring_error* error, Make&& make) noexcept {
  return act(error, [&]() -> Status {
    FABRING_TRY(check_handle(comm, "comm"));
    DataType known{};
    ReduceOp known_op{};
    if (!is_usable(error)) return refuse(comm, make(known, known_op), error_not_initialised());
    Status taken = take(call, type, known);
    if (taken.ok()) taken = take(call, op, known_op);
    if (!taken.ok()) return refuse(comm, make(known, known_op), taken);
    return comm->value.run(make(known, known_op));
  });
}

}  // namespace
}  // namespace fabring::c_api

using fabring::DataType;
using fabring::Operation;
using fabring::ReduceOp;
using fabring::c_api::run;

fabring_status_code fabring_allreduce(fabring_comm* comm, const void* in, void* out, std::size_t count,
                                      fabring_data_type type, fabring_reduce_op op, fabring_error* error) {
  return run("fabring_allreduce", comm, type, op, error,
             [&](DataType of, ReduceOp by) { return Operation::allreduce(in, out, count, of, by); });
}

fabring_status_code fabring_grouped_allreduce(fabring_comm* comm, const fabring_tensor* tensors,
                                              std::size_t tensor_count, fabring_data_type type, fabring_reduce_op op,
                                              fabring_error* error) {
  return fabring::c_api::act(error, [&]() -> fabring::Status {
    FABRING_TRY(fabring::c_api::check_handle(comm, "comm"));
    DataType of{};
    ReduceOp by{};
    if (!fabring::c_api::is_usable(error))
      return fabring::c_api::refuse(comm, Operation(), fabring::c_api::error_not_initialised());
    fabring::Status taken = fabring::c_api::take("fabring_grouped_allreduce", type, of);
    if (taken.ok()) taken = fabring::c_api::take("fabring_grouped_allreduce", op, by);
    if (!taken.ok()) return fabring::c_api::refuse(comm, Operation(), taken);
    const auto list = fabring::c_api::to_tensors(tensors, tensor_count);
    if (!list) return fabring::c_api::refuse(comm, Operation(), list.error());
    return comm->value.run(Operation::grouped_allreduce(*list, of, by));
  });
}

fabring_status_code fabring_reduce(fabring_comm* comm, const void* in, void* out, std::size_t count,
                                   fabring_data_type type, fabring_reduce_op op, std::int32_t root,
                                   fabring_error* error) {
  return run("fabring_reduce", comm, type, op, error,
             [&](DataType of, ReduceOp by) { return Operation::reduce(in, out, count, of, by, root); });
}

fabring_status_code fabring_reduce_scatter(fabring_comm* comm, const void* in, void* out, std::size_t count,
                                           fabring_data_type type, fabring_reduce_op op, fabring_error* error) {
  return run("fabring_reduce_scatter", comm, type, op, error,
             [&](DataType of, ReduceOp by) { return Operation::reduce_scatter(in, out, count, of, by); });
}

fabring_status_code fabring_all_gather(fabring_comm* comm, const void* in, void* out, std::size_t count,
                                       fabring_data_type type, fabring_error* error) {
  return run("fabring_all_gather", comm, type, error,
             [&](DataType of) { return Operation::all_gather(in, out, count, of); });
}

fabring_status_code fabring_broadcast(fabring_comm* comm, void* data, std::size_t count, fabring_data_type type,
                                      std::int32_t root, fabring_error* error) {
  return run("fabring_broadcast", comm, type, error,
             [&](DataType of) { return Operation::broadcast(data, data, count, of, root); });
}

fabring_status_code fabring_gather(fabring_comm* comm, const void* in, void* out, std::size_t count,
                                   fabring_data_type type, std::int32_t root, fabring_error* error) {
  return run("fabring_gather", comm, type, error,
             [&](DataType of) { return Operation::gather(in, out, count, of, root); });
}

fabring_status_code fabring_scatter(fabring_comm* comm, const void* in, void* out, std::size_t count,
                                    fabring_data_type type, std::int32_t root, fabring_error* error) {
  return run("fabring_scatter", comm, type, error,
             [&](DataType of) { return Operation::scatter(in, out, count, of, root); });
}

fabring_status_code fabring_alltoall(fabring_comm* comm, const void* in, void* out, std::size_t count,
                                     fabring_data_type type, fabring_error* error) {
  return run("fabring_alltoall", comm, type, error,
             [&](DataType of) { return Operation::alltoall(in, out, count, of); });
}

fabring_status_code fabring_barrier(fabring_comm* comm, fabring_error* error) {
  return run("fabring_barrier", comm, FABRING_TYPE_UINT8, error, [](DataType) { return Operation::barrier(); });
}

fabring_status_code fabring_send(fabring_comm* comm, const void* data, std::size_t count, fabring_data_type type,
                                 std::int32_t to, std::int32_t tag, fabring_error* error) {
  return run("fabring_send", comm, type, error, [&](DataType of) { return Operation::send(data, count, of, to, tag); });
}

fabring_status_code fabring_recv(fabring_comm* comm, void* data, std::size_t count, fabring_data_type type,
                                 std::int32_t from, std::int32_t tag, fabring_error* error) {
  return run("fabring_recv", comm, type, error,
             [&](DataType of) { return Operation::recv(data, count, of, from, tag); });
}

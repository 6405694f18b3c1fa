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

/// Runs what `make` returns for the type.
template <class Make>
fabring_status_code run(const char* call, fabring_comm* comm, fabring_data_type type, fabring_error* error,
                        Make&& make) noexcept {
  DataType known{};
  const auto refuse_it = [&](const Status& why) { return refuse(comm, make(known), why); };
  return answer_or_refuse(comm, "comm", error, refuse_it, [&]() -> Status {
    const Status taken = take(call, type, known);
    return taken.ok() ? comm->value.run(make(known)) : refuse_it(taken);
  });
}

/// The same for those that reduce.
template <class Make>
fabring_status_code run(const char* call, fabring_comm* comm, fabring_data_type type, fabring_reduce_op op,
                        fabring_error* error, Make&& make) noexcept {
  DataType known{};
  ReduceOp known_op{};
  const auto refuse_it = [&](const Status& why) { return refuse(comm, make(known, known_op), why); };
  return answer_or_refuse(comm, "comm", error, refuse_it, [&]() -> Status {
    Status taken = take(call, type, known);
    if (taken.ok()) taken = take(call, op, known_op);
    return taken.ok() ? comm->value.run(make(known, known_op)) : refuse_it(taken);
  });
}

}  // namespace
}  // namespace fabring::c_api

using namespace fabring::c_api;
using fabring::DataType;
using fabring::Operation;
using fabring::ReduceOp;
using fabring::Status;

fabring_status_code fabring_allreduce(fabring_comm* comm, const void* in, void* out, std::size_t count,
                                      fabring_data_type type, fabring_reduce_op op, fabring_error* error) {
  return run("fabring_allreduce", comm, type, op, error,
             [&](DataType of, ReduceOp by) { return Operation::allreduce(in, out, count, of, by); });
}

fabring_status_code fabring_grouped_allreduce(fabring_comm* comm, const fabring_tensor* tensors,
                                              std::size_t tensor_count, fabring_data_type type, fabring_reduce_op op,
                                              fabring_error* error) {
  const auto refuse_it = [&](const Status& why) { return refuse(comm, Operation(), why); };
  return answer_or_refuse(comm, "comm", error, refuse_it, [&]() -> Status {
    DataType of{};
    ReduceOp by{};
    Status taken = take("fabring_grouped_allreduce", type, of);
    if (taken.ok()) taken = take("fabring_grouped_allreduce", op, by);
    if (!taken.ok()) return refuse_it(taken);
    const auto list = to_tensors(tensors, tensor_count);
    if (!list) return refuse_it(list.error());
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

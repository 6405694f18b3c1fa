#include "bindings/c/operation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "bindings/c/answer.hpp"
#include "bindings/c/structs.hpp"

namespace fabring::c_api {
namespace {

template <class Enumeration>
Status to_enumeration(std::int32_t from, int count, const char* what, Enumeration& into) {
  if (from < 0 || from >= count)
    return {ErrorCode::invalid_argument, fmt::format("there is no {} {}; they are 0 to {}", what, from, count - 1)};
  into = static_cast<Enumeration>(from);
  return {};
}

// The caller's function is called as ours is: fabring.h declares it with the number that represents a DataType.
static_assert(std::is_same_v<std::underlying_type_t<DataType>, std::uint8_t>);

// Both fields are 1 until they are set. A caller may set both, and one that names its fields has 0 in the others; what
// cannot be meant is a factor in the field that is not taken beside a 1 in the one that is.
Status check_factor(const fabring_operation& from, DataType type) {
  const bool real = is_floating_point(type);
  const bool is_one = real ? from.factor == 1 : from.whole_factor == 1;
  const bool other_is_set = real ? from.whole_factor != 1 && from.whole_factor != 0  //
                                 : from.factor != 1 && from.factor != 0;
  if (!is_one || !other_is_set || !supports(type, ReduceOp::premul_sum)) return {};
  return {ErrorCode::invalid_argument,
          fmt::format("the field {} of a fabring_operation is set, but premul_sum of {} elements takes {}, which is 1",
                      real ? "whole_factor" : "factor", name(type), real ? "factor" : "whole_factor")};
}

bool takes_reduction(Collective collective) {
  return collective == Collective::allreduce || collective == Collective::reduce ||
         collective == Collective::reduce_scatter;
}

Result<Reduction> to_reduction(const fabring_operation& from, DataType type) {
  ReduceOp op{};
  FABRING_TRY(to_reduce_op(from.op, op).with_prefix("the field op of a fabring_operation: "));
  if (op == ReduceOp::user)
    return Reduction::user(reinterpret_cast<UserFunction>(from.function), from.context, from.commutes != 0);
  if (op != ReduceOp::premul_sum) return Reduction(op);
  FABRING_TRY(check_factor(from, type));
  return is_floating_point(type) ? Reduction::premul_sum(from.factor) : Reduction::premul_sum(from.whole_factor);
}

std::span<const std::size_t> array(const std::size_t* first, int ranks) {
  return first == nullptr ? std::span<const std::size_t>() : std::span(first, static_cast<std::size_t>(ranks));
}

Operation unreadable() {
  Operation outline;
  outline.collective = static_cast<Collective>(collective_count);
  return outline;
}

}  // namespace

Status to_data_type(fabring_data_type from, DataType& into) {
  return to_enumeration(from, data_type_count, "data type", into);
}

Status to_reduce_op(fabring_reduce_op from, ReduceOp& into) {
  return to_enumeration(from, reduce_op_count, "reduction", into);
}

Result<std::vector<Tensor>> to_tensors(const fabring_tensor* from, std::size_t count) {
  std::vector<Tensor> made;
  if (count == 0) return made;
  if (from == nullptr) return null_argument("tensors");
  if (count > most_of_group)
    return Status(ErrorCode::invalid_argument,
                  fmt::format("a list of {} tensors; {} are possible", count, most_of_group));
  made.reserve(count);
  for (const fabring_tensor& one : std::span(from, count)) made.push_back({one.in, one.out, one.count});
  return made;
}

Result<Operation> to_operation(const fabring_operation* from, int ranks, TensorLists& lists) {
  if (from == nullptr) return null_argument("operation");
  fabring_operation given = FABRING_OPERATION_INIT;
  FABRING_TRY(read_struct(from, "fabring_operation", "FABRING_OPERATION_INIT", given));
  Operation made;
  FABRING_TRY(to_enumeration(given.collective, collective_count, "collective", made.collective)
                  .with_prefix("the field collective of a fabring_operation: "));
  if (made.collective != Collective::barrier)
    FABRING_TRY(to_data_type(given.type, made.type).with_prefix("the field type of a fabring_operation: "));
  if (takes_reduction(made.collective)) {
    const auto reduction = to_reduction(given, made.type);
    if (!reduction) return reduction.error();
    made.reduction = *reduction;
  }
  made.in = given.in;
  made.out = given.out;
  made.count = given.count;
  made.root = given.root;
  made.tag = given.tag;
  constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
  made.timeout = std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(given.timeout_ns, most)));
  made.stream = given.stream;
  if (given.memory < FABRING_MEMORY_DETECT || given.memory > FABRING_MEMORY_DEVICE)
    return Status(
        ErrorCode::invalid_argument,
        fmt::format("the field memory of a fabring_operation: there is no kind of memory {}; they are 0 to {}",
                    given.memory, FABRING_MEMORY_DEVICE));
  made.memory = static_cast<Memory>(given.memory);
  made.device = given.device;
  made.blocks = {array(given.counts, ranks), array(given.offsets, ranks)};
  made.out_blocks = {array(given.out_counts, ranks), array(given.out_offsets, ranks)};
  made.by_blocks = given.counts != nullptr || given.offsets != nullptr || given.out_counts != nullptr ||
                   given.out_offsets != nullptr;
  if (given.reserved != 0)
    return Status(ErrorCode::invalid_argument,
                  fmt::format("the field reserved of a fabring_operation is {}; it must be 0", given.reserved));
  if (given.wire_type != 0)
    FABRING_TRY(to_data_type(given.wire_type, made.wire_type.emplace())
                    .with_prefix("the field wire_type of a fabring_operation: "));
  if (given.tensor_count > 0) {
    auto tensors = to_tensors(given.tensors, given.tensor_count);
    if (!tensors) return tensors.error();
    made.tensors = lists.emplace_back(std::move(*tensors));
  }
  return made;
}

Result<std::vector<Operation>> to_operations(const fabring_operation* from, std::size_t count, int ranks,
                                             TensorLists& lists) {
  std::vector<Operation> made;
  if (count == 0) return made;
  if (from == nullptr) return null_argument("operations");
  const std::size_t stride = size_of_struct(from);
  if (count > most_of_group)
    return Status(ErrorCode::invalid_argument,
                  fmt::format("a group of {} operations; {} are possible", count, most_of_group));
  made.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    // A bad stride ends at the check of the first element.
    const auto* one = reinterpret_cast<const fabring_operation*>(reinterpret_cast<const std::byte*>(from) + i * stride);
    if (size_of_struct(one) != stride)
      return Status(
          ErrorCode::invalid_argument,
          fmt::format("operation {} of the group has struct_size {}, the first one {}; all must have the same", i,
                      size_of_struct(one), stride));
    auto operation = to_operation(one, ranks, lists);
    if (!operation)
      return in_collective(outline_of(one),
                           operation.error().with_prefix(fmt::format("operation {} of the group: ", i)));
    made.push_back(*operation);
  }
  return made;
}

Operation outline_of(const fabring_operation* from) {
  Operation outline = unreadable();
  if (from == nullptr || !has_known_size<fabring_operation>(size_of_struct(from))) return outline;
  fabring_operation given = FABRING_OPERATION_INIT;
  std::memcpy(&given, from, std::min(size_of_struct(from), sizeof given));
  if (!to_enumeration(given.collective, collective_count, "collective", outline.collective).ok()) return outline;
  outline.root = given.root;
  outline.tag = given.tag;
  return outline;
}

Status in_collective(const Operation& outline, const Status& why) {
  ErrorContext context = why.context();
  if (context.collective.empty() && static_cast<int>(outline.collective) < collective_count)
    context.collective = name(outline.collective);
  return why.with_context(std::move(context));
}

std::vector<Operation> outlines_of(const fabring_operation* from, std::size_t count) {
  std::vector<Operation> all;
  if (from == nullptr || count > most_of_group || !has_known_size<fabring_operation>(size_of_struct(from)))
    return {unreadable()};
  const std::size_t stride = size_of_struct(from);
  for (std::size_t i = 0; i < count; ++i) {
    const auto* one = reinterpret_cast<const fabring_operation*>(reinterpret_cast<const std::byte*>(from) + i * stride);
    if (size_of_struct(one) != stride) return {unreadable()};
    all.push_back(outline_of(one));
  }
  return all;
}

}  // namespace fabring::c_api

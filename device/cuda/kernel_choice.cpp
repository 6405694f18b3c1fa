#include "device/cuda/kernel_choice.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "runtime/base/reduce_ops.hpp"

namespace fabring::cuda {
namespace {

std::string unsigned_of(DataType type) { return fmt::format("uint{}", 8 * size_of(type)); }

std::string kernel_for(DataType type, ReduceOp op) {
  if (is_bitwise(op)) return std::string(name(op));
  if (is_logical(op)) return fmt::format("{}_{}", name(op), unsigned_of(type));
  if (op == ReduceOp::avg || op == ReduceOp::premul_sum) op = ReduceOp::sum;
  const bool wraps = op == ReduceOp::prod && !is_floating_point(type);
  return fmt::format("{}_{}", name(op), wraps ? unsigned_of(type) : std::string(name(type)));
}

Status wrong(const std::string& what) { return Status(ErrorCode::invalid_argument, "reduction on a GPU: " + what); }

Status check_addresses(const KernelCall& call, std::size_t alignment) {
  const auto misplaced = [&](const void* at) {
    return at == nullptr || reinterpret_cast<std::uintptr_t>(at) % alignment != 0;
  };
  bool bad = misplaced(call.task.to);
  for (std::uint32_t i = 0; i < call.task.source_count; ++i) bad = bad || misplaced(call.task.sources[i]);
  return bad && call.task.count > 0
             ? wrong(fmt::format("a buffer is null or not at a multiple of {} bytes, the size of its elements",
                                 alignment))
             : Status();
}

}  // namespace

Result<KernelCall> choose_kernel(const DeviceReduction& what) {
  if (!supports(what.type, what.op) || what.op == ReduceOp::user)
    return wrong(fmt::format("no kernel does {} of {}", name(what.op), name(what.type)));
  if (what.sources.empty() || what.sources.size() > kernels::most_sources)
    return wrong(fmt::format("{} sources; 1 to {} are possible", what.sources.size(), kernels::most_sources));
  if (what.ranks < 1) return wrong(fmt::format("an average over {} ranks", what.ranks));
  const ReduceOp op = what.type == DataType::boolean ? boolean_operation(what.op) : what.op;
  Result<KernelCall> call{KernelCall()};
  call->task = {};
  call->task.to = reinterpret_cast<unsigned char*>(what.to);
  for (const std::byte* source : what.sources)
    call->task.sources[call->task.source_count++] = reinterpret_cast<const unsigned char*>(source);
  call->task.ranks = what.op == ReduceOp::avg ? static_cast<std::uint32_t>(what.ranks) : 1;
  call->task.count = what.count;
  call->element_bytes = size_of(what.type);
  FABRING_TRY(check_addresses(*call, call->element_bytes));
  if (what.sources.size() > 1) {
    call->kernel = kernel_for(what.type, op);
  } else if (is_logical(op)) {  // a value is a truth value only once it is 0 or 1: x or x
    call->task.sources[call->task.source_count++] = call->task.sources[0];
    call->kernel = kernel_for(what.type, ReduceOp::logical_or);
  } else if (call->task.ranks > 1) {
    call->kernel = fmt::format("divide_{}", name(what.type));
  }
  if (is_bitwise(op)) {
    call->task.count *= call->element_bytes;
    call->element_bytes = 1;
  }
  kernels::lay_out(call->task, call->element_bytes);
  return call;
}

Result<KernelCall> choose_scaling(DataType type, std::byte* to, const std::byte* from, const void* factor,
                                  std::size_t count) {
  if (!supports(type, ReduceOp::premul_sum)) return wrong(fmt::format("no kernel multiplies {}", name(type)));
  Result<KernelCall> call{KernelCall()};
  call->task = {};
  call->task.to = reinterpret_cast<unsigned char*>(to);
  call->task.sources[0] = reinterpret_cast<const unsigned char*>(from);
  call->task.source_count = 1;
  call->task.ranks = 1;
  call->task.count = count;
  call->element_bytes = size_of(type);
  const bool small_float = is_floating_point(type) && call->element_bytes <= 2;
  std::memcpy(&call->task.factor, factor, small_float ? sizeof(float) : call->element_bytes);
  call->kernel = fmt::format("scale_{}", is_floating_point(type) ? std::string(name(type)) : unsigned_of(type));
  FABRING_TRY(check_addresses(*call, call->element_bytes));
  kernels::lay_out(call->task, call->element_bytes);
  return call;
}

std::optional<kernels::CopyTask> choose_copies(std::span<const DeviceCopy> copies) {
  if (copies.empty() || copies.size() > kernels::most_pieces) return std::nullopt;
  std::uintptr_t places = 16;
  std::size_t bytes = 0;
  for (const DeviceCopy& copy : copies) {
    places |= reinterpret_cast<std::uintptr_t>(copy.to) | reinterpret_cast<std::uintptr_t>(copy.from) | copy.bytes;
    bytes += copy.bytes;
  }
  if (bytes > most_bytes_by_kernel) return std::nullopt;
  kernels::CopyTask task = {};
  task.unit_bytes = 1u << std::countr_zero(places);
  for (const DeviceCopy& copy : copies)
    task.pieces[task.piece_count++] = {reinterpret_cast<unsigned char*>(copy.to),
                                       reinterpret_cast<const unsigned char*>(copy.from), copy.bytes / task.unit_bytes};
  return task;
}

}  // namespace fabring::cuda

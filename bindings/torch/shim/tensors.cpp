#include "tensors.hpp"
#include "versions.hpp"

#include <c10/util/Exception.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>

namespace fabring_torch {
namespace {

std::optional<fabring_data_type> type_of(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return FABRING_TYPE_FLOAT64;
    case at::kFloat:
      return FABRING_TYPE_FLOAT32;
    case at::kHalf:
      return FABRING_TYPE_FLOAT16;
    case at::kBFloat16:
      return FABRING_TYPE_BFLOAT16;
    case at::kChar:
      return FABRING_TYPE_INT8;
    case at::kShort:
      return FABRING_TYPE_INT16;
    case at::kInt:
      return FABRING_TYPE_INT32;
    case at::kLong:
      return FABRING_TYPE_INT64;
    case at::kByte:
      return FABRING_TYPE_UINT8;
    case at::kUInt16:
      return FABRING_TYPE_UINT16;
    case at::kUInt32:
      return FABRING_TYPE_UINT32;
    case at::kUInt64:
      return FABRING_TYPE_UINT64;
    case at::kFloat8_e4m3fn:
      return FABRING_TYPE_FLOAT8_E4M3;
    case at::kFloat8_e5m2:
      return FABRING_TYPE_FLOAT8_E5M2;
    case at::kBool:
      return FABRING_TYPE_BOOLEAN;
    default:
      return std::nullopt;
  }
}

fabring_reduce_op op_of(const c10d::ReduceOp& op) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
      return FABRING_OP_SUM;
    case c10d::ReduceOp::AVG:
      return FABRING_OP_AVG;
    case c10d::ReduceOp::PRODUCT:
      return FABRING_OP_PROD;
    case c10d::ReduceOp::MIN:
      return FABRING_OP_MIN;
    case c10d::ReduceOp::MAX:
      return FABRING_OP_MAX;
    case c10d::ReduceOp::BAND:
      return FABRING_OP_BITWISE_AND;
    case c10d::ReduceOp::BOR:
      return FABRING_OP_BITWISE_OR;
    case c10d::ReduceOp::BXOR:
      return FABRING_OP_BITWISE_XOR;
    case c10d::ReduceOp::PREMUL_SUM:
      return FABRING_OP_PREMUL_SUM;
    default:
      TORCH_CHECK_VALUE(false, "fabring: there is no reduction ", static_cast<int>(op.op_));
  }
}

/// What whole numbers of that type are multiplied by, as 64 bits, whichever sign these are read with; none: it is not
/// whole, or too large for them.
std::optional<std::int64_t> whole_factor(double factor, at::ScalarType of) {
  if (factor != std::trunc(factor) || factor < -0x1p63) return std::nullopt;
  if (factor < 0x1p63) return static_cast<std::int64_t>(factor);
  if (of != at::kUInt64 || factor >= 0x1p64) return std::nullopt;
  return std::bit_cast<std::int64_t>(static_cast<std::uint64_t>(factor));
}

/// The same of one that a tensor has, which may be whole and none that a double has.
std::optional<std::int64_t> whole_factor(const at::Tensor& factor, at::ScalarType of) {
  if (!at::isIntegralType(factor.scalar_type(), /*includeBool=*/true)) return whole_factor(factor.item<double>(), of);
  if (factor.scalar_type() != at::kUInt64) return factor.item<std::int64_t>();
  const auto whole = std::bit_cast<std::int64_t>(factor.item().toUInt64());
  return whole < 0 && of != at::kUInt64 ? std::nullopt : std::optional(whole);
}

void take_factor(const c10d::ReduceOp& op, at::ScalarType of, fabring_operation* into) {
  const auto* more = dynamic_cast<const PreMulSumSupplement*>(op.supplement_.get());
  TORCH_CHECK_VALUE(more != nullptr, "fabring: PREMUL_SUM has no factor; make it with _make_nccl_premul_sum(factor)");
  const at::Tensor& tensor = more->tensor_factor;
  if (tensor.defined()) {
    check_usable(tensor, "PREMUL_SUM's factor");
    TORCH_CHECK_VALUE(type_of(tensor.scalar_type()).has_value(), "fabring: PREMUL_SUM: the factor is ",
                      at::toString(tensor.scalar_type()), ", not a real number");
  }
  into->factor = tensor.defined() ? tensor.item<double>() : more->double_factor;
  if (!at::isIntegralType(of, /*includeBool=*/true)) return;
  const auto whole = tensor.defined() ? whole_factor(tensor, of) : whole_factor(into->factor, of);
  TORCH_CHECK_VALUE(whole.has_value(), "fabring: PREMUL_SUM: the factor ", into->factor,
                    " is not whole, or too large, and the elements are ", at::toString(of));
  into->whole_factor = *whole;
}

/// Does it begin where numbers of its type may? One in the middle of a file's bytes need not.
bool is_aligned(const at::Tensor& tensor) {
  const std::size_t size = c10::elementSize(c10::toRealValueType(tensor.scalar_type()));
  return reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % size == 0;
}

/// Does its memory hold its elements, in one piece, where they may be? A view by conj() and the like stands for the
/// conjugate, or the negative, of what is there, and is contiguous all the same.
bool holds_its_elements(const at::Tensor& tensor) {
  return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg() && is_aligned(tensor);
}

/// The tensor if its memory does, or a copy.
at::Tensor with_its_elements(const at::Tensor& tensor) {
  const at::Tensor whole = tensor.contiguous().resolve_conj().resolve_neg();
  return is_aligned(whole) ? whole : whole.clone();
}

/// Do they lie one after the other in one memory?
bool adjacent(const std::vector<at::Tensor>& tensors) {
  const char* next = nullptr;
  for (const at::Tensor& tensor : tensors) {
    if (!holds_its_elements(tensor) || !tensor.storage().is_alias_of(tensors[0].storage())) return false;
    const auto* at = static_cast<const char*>(tensor.const_data_ptr());
    if (tensor.numel() == 0) continue;
    if (next != nullptr && at != next) return false;
    next = at + tensor.nbytes();
  }
  return true;
}

std::int64_t elements_of(const std::vector<at::Tensor>& tensors) {
  std::int64_t count = 0;
  for (const at::Tensor& tensor : tensors) count += tensor.numel();
  return count;
}

/// One view of tensors that are adjacent.
at::Tensor joined(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& first : tensors)
    if (first.numel() > 0) return first.as_strided({elements_of(tensors)}, {1});
  return tensors[0].view({0});
}

void check_not_expanded(const at::Tensor& tensor, const char* what) {
  if (tensor.is_contiguous()) return;
  for (std::int64_t dim = 0; dim < tensor.dim(); ++dim)
    TORCH_CHECK_VALUE(tensor.stride(dim) != 0 || tensor.size(dim) <= 1, "fabring: ", what,
                      " is expanded: several of its elements are one place in memory, which cannot hold the result; "
                      "call contiguous() or clone() first");
}

}  // namespace

Elements elements_to_move(const at::Tensor& tensor) {
  if (const auto type = type_of(tensor.scalar_type())) return {*type, 1};
  return {FABRING_TYPE_UINT8, static_cast<std::size_t>(tensor.element_size())};
}

Elements elements_to_reduce(const at::Tensor& tensor, const c10d::ReduceOp& op, fabring_operation* into) {
  into->op = op_of(op);
  if (into->op == FABRING_OP_PREMUL_SUM) take_factor(op, tensor.scalar_type(), into);
  const bool linear = into->op == FABRING_OP_SUM || into->op == FABRING_OP_AVG || into->op == FABRING_OP_PREMUL_SUM;
  const at::ScalarType type = tensor.scalar_type();
  if (at::isComplexType(type) && linear) return {*type_of(at::toRealValueType(type)), 2};
  const auto known = type_of(type);
  TORCH_CHECK_TYPE(known.has_value(), "fabring: ", fabring_reduce_op_name(into->op), " of ", at::toString(type),
                   " tensors is not possible; convert them first");
  TORCH_CHECK_VALUE(fabring_supports(*known, into->op) != 0, "fabring: ", fabring_reduce_op_name(into->op), " of ",
                    at::toString(type), " tensors has no meaning; choose another operation or convert them first");
  return {*known, 1};
}

std::string describe(const at::Tensor& tensor) {
  return c10::str(at::toString(tensor.scalar_type()), " ", tensor.sizes());
}

void check_usable(const at::Tensor& tensor, const char* what) {
  TORCH_CHECK_VALUE(tensor.defined(), "fabring: ", what, " is no tensor");
  TORCH_CHECK_TYPE(tensor.layout() == at::kStrided, "fabring: ", what, " is ", tensor.layout(),
                   "; only all_reduce (SUM) takes sparse tensors, and none of them quantized or mkldnn ones");
  TORCH_CHECK_VALUE(tensor.device().is_cpu() || tensor.device().is_cuda(), "fabring: ", what, " is on ",
                    tensor.device(),
                    ", but this backend works on tensors of the CPU and of CUDA devices; move it there, or name one "
                    "backend for each kind of device: init_process_group(\"cpu:fabring,xpu:xccl\")");
  TORCH_CHECK_VALUE(tensor.numel() == 0 || tensor.const_data_ptr() != nullptr, "fabring: ", what, ", ",
                    describe(tensor), ", has no memory; a FakeTensor?");
}

void check_type(const at::Tensor& tensor, at::ScalarType type, const char* what) {
  check_usable(tensor, what);
  TORCH_CHECK_TYPE(tensor.scalar_type() == type, "fabring: ", what, " is ", at::toString(tensor.scalar_type()),
                   ", but the others are ", at::toString(type), "; all tensors of a call have one type");
}

at::Tensor to_read(const at::Tensor& tensor, const char* what) {
  check_usable(tensor, what);
  return with_its_elements(tensor);
}

at::Tensor to_write(const at::Tensor& tensor, bool keep, Copies& copies, const char* what) {
  check_usable(tensor, what);
  check_not_expanded(tensor, what);
  if (holds_its_elements(tensor)) return tensor;
  at::Tensor buffer =
      keep ? with_its_elements(tensor) : at::empty(tensor.sizes(), tensor.options(), at::MemoryFormat::Contiguous);
  copies.emplace_back(tensor, buffer);
  return buffer;
}

at::Tensor to_read(const std::vector<at::Tensor>& tensors, const char* what) {
  TORCH_CHECK_VALUE(!tensors.empty(), "fabring: the list of ", what, " is empty");
  for (const at::Tensor& tensor : tensors) check_type(tensor, tensors[0].scalar_type(), what);
  if (adjacent(tensors)) return joined(tensors);
  at::Tensor buffer = at::empty({elements_of(tensors)}, tensors[0].options());
  std::int64_t from = 0;
  for (const at::Tensor& tensor : tensors) {
    buffer.narrow(0, from, tensor.numel()).view(tensor.sizes()).copy_(tensor);
    from += tensor.numel();
  }
  return buffer;
}

at::Tensor to_write(const std::vector<at::Tensor>& tensors, Copies& copies, const char* what) {
  TORCH_CHECK_VALUE(!tensors.empty(), "fabring: the list of ", what, " is empty");
  for (const at::Tensor& tensor : tensors) {
    check_type(tensor, tensors[0].scalar_type(), what);
    check_not_expanded(tensor, what);
  }
  if (adjacent(tensors)) return joined(tensors);
  at::Tensor buffer = at::empty({elements_of(tensors)}, tensors[0].options());
  std::int64_t from = 0;
  for (const at::Tensor& tensor : tensors) {
    copies.emplace_back(tensor, buffer.narrow(0, from, tensor.numel()).view(tensor.sizes()));
    from += tensor.numel();
  }
  return buffer;
}

}  // namespace fabring_torch

#include "fabring/types.hpp"

#include <array>
#include <utility>

namespace fabring {
namespace {

struct TypeRow {
  DataType type;
  std::size_t bytes;
  std::string_view name;
  std::array<std::string_view, 3> aliases;
};
constexpr std::array<TypeRow, data_type_count> type_rows{{
    {DataType::float64, 8, "float64", {"f64", "double", ""}},
    {DataType::float32, 4, "float32", {"f32", "float", ""}},
    {DataType::float16, 2, "float16", {"f16", "half", "fp16"}},
    {DataType::bfloat16, 2, "bfloat16", {"bf16", "", ""}},
    {DataType::int8, 1, "int8", {"i8", "", ""}},
    {DataType::int16, 2, "int16", {"i16", "", ""}},
    {DataType::int32, 4, "int32", {"i32", "int", ""}},
    {DataType::int64, 8, "int64", {"i64", "", ""}},
    {DataType::uint8, 1, "uint8", {"u8", "", ""}},
    {DataType::uint16, 2, "uint16", {"u16", "", ""}},
    {DataType::uint32, 4, "uint32", {"u32", "", ""}},
    {DataType::uint64, 8, "uint64", {"u64", "", ""}},
    {DataType::float8_e4m3, 1, "float8_e4m3", {"fp8_e4m3", "e4m3", "float8_e4m3fn"}},
    {DataType::float8_e5m2, 1, "float8_e5m2", {"fp8_e5m2", "e5m2", ""}},
    {DataType::boolean, 1, "bool", {"boolean", "", ""}},
}};
struct OpRow {
  ReduceOp op;
  std::string_view name;
  std::string_view alias;  // as MPI abbreviates it
};
constexpr std::array<OpRow, reduce_op_count> op_rows{{
    {ReduceOp::sum, "sum", ""},
    {ReduceOp::prod, "prod", ""},
    {ReduceOp::min, "min", ""},
    {ReduceOp::max, "max", ""},
    {ReduceOp::avg, "avg", ""},
    {ReduceOp::logical_and, "logical_and", "land"},
    {ReduceOp::logical_or, "logical_or", "lor"},
    {ReduceOp::logical_xor, "logical_xor", "lxor"},
    {ReduceOp::bitwise_and, "bitwise_and", "band"},
    {ReduceOp::bitwise_or, "bitwise_or", "bor"},
    {ReduceOp::bitwise_xor, "bitwise_xor", "bxor"},
    {ReduceOp::premul_sum, "premul_sum", ""},
    {ReduceOp::user, "user", ""},
}};
constexpr std::array<std::string_view, collective_count> collective_names{
    "allreduce", "reduce",   "reduce_scatter", "all_gather", "broadcast", "gather",
    "scatter",   "alltoall", "barrier",        "send",       "recv"};

// A program may have cast any number to one.
bool is_known(DataType type) { return static_cast<int>(type) < data_type_count; }

}  // namespace

bool is_floating_point(DataType type) {
  switch (type) {
    case DataType::float64:
    case DataType::float32:
    case DataType::float16:
    case DataType::bfloat16:
    case DataType::float8_e4m3:
    case DataType::float8_e5m2:
      return true;
    default:
      return false;
  }
}

bool supports(DataType type, ReduceOp op) {
  if (!is_known(type)) return false;
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::prod:
    case ReduceOp::min:
    case ReduceOp::max:
    case ReduceOp::user:
      return true;
    case ReduceOp::avg:
    case ReduceOp::premul_sum:
      return type != DataType::boolean;
    case ReduceOp::logical_and:
    case ReduceOp::logical_or:
    case ReduceOp::logical_xor:
    case ReduceOp::bitwise_and:
    case ReduceOp::bitwise_or:
    case ReduceOp::bitwise_xor:
      return !is_floating_point(type);
  }
  return false;
}

std::size_t size_of(DataType type) { return is_known(type) ? type_rows[static_cast<std::size_t>(type)].bytes : 0; }

std::string_view name(DataType type) {
  return is_known(type) ? type_rows[static_cast<std::size_t>(type)].name : "unknown";
}

std::string_view name(ReduceOp op) {
  return static_cast<int>(op) < reduce_op_count ? op_rows[static_cast<std::size_t>(op)].name : "unknown";
}

std::string_view name(Collective what) {
  return static_cast<int>(what) < collective_count ? collective_names[static_cast<std::size_t>(what)] : "unknown";
}

std::optional<DataType> parse_data_type(std::string_view text) {
  for (const TypeRow& row : type_rows) {
    if (text == row.name) return row.type;
    for (std::string_view alias : row.aliases)
      if (!alias.empty() && text == alias) return row.type;
  }
  return std::nullopt;
}

std::optional<ReduceOp> parse_reduce_op(std::string_view text) {
  for (const OpRow& row : op_rows)
    if (text == row.name || (!row.alias.empty() && text == row.alias)) return row.op;
  return std::nullopt;
}

std::optional<Collective> parse_collective(std::string_view text) {
  for (std::size_t i = 0; i < collective_names.size(); ++i)
    if (text == collective_names[i]) return static_cast<Collective>(i);
  return std::nullopt;
}

}  // namespace fabring

// Versions, names and numbers.

#include "fabring/types.hpp"

#include <fmt/format.h>

#include "bindings/c/answer.hpp"
#include "bindings/c/operation.hpp"
#include "fabring/log.hpp"
#include "fabring/version.hpp"

namespace fabring::c_api {
namespace {

template <auto ours, int theirs>
constexpr bool same = static_cast<int>(ours) == theirs;

static_assert(same<ErrorCode::ok, FABRING_STATUS_OK>);
static_assert(same<ErrorCode::invalid_argument, FABRING_STATUS_INVALID_ARGUMENT>);
static_assert(same<ErrorCode::mismatch, FABRING_STATUS_MISMATCH>);
static_assert(same<ErrorCode::unsupported, FABRING_STATUS_UNSUPPORTED>);
static_assert(same<ErrorCode::unavailable, FABRING_STATUS_UNAVAILABLE>);
static_assert(same<ErrorCode::timeout, FABRING_STATUS_TIMEOUT>);
static_assert(same<ErrorCode::peer_lost, FABRING_STATUS_PEER_LOST>);
static_assert(same<ErrorCode::aborted, FABRING_STATUS_ABORTED>);
static_assert(same<ErrorCode::out_of_memory, FABRING_STATUS_OUT_OF_MEMORY>);
static_assert(same<ErrorCode::transport_error, FABRING_STATUS_TRANSPORT_ERROR>);
static_assert(same<ErrorCode::internal, FABRING_STATUS_INTERNAL>);
static_assert(same<ErrorCode::device_error, FABRING_STATUS_DEVICE_ERROR>);

static_assert(same<LogLevel::error, FABRING_LOG_ERROR>);
static_assert(same<LogLevel::warning, FABRING_LOG_WARNING>);
static_assert(same<LogLevel::info, FABRING_LOG_INFO>);
static_assert(same<LogLevel::debug, FABRING_LOG_DEBUG>);

static_assert(same<DataType::float64, FABRING_TYPE_FLOAT64>);
static_assert(same<DataType::float32, FABRING_TYPE_FLOAT32>);
static_assert(same<DataType::float16, FABRING_TYPE_FLOAT16>);
static_assert(same<DataType::bfloat16, FABRING_TYPE_BFLOAT16>);
static_assert(same<DataType::int8, FABRING_TYPE_INT8>);
static_assert(same<DataType::int16, FABRING_TYPE_INT16>);
static_assert(same<DataType::int32, FABRING_TYPE_INT32>);
static_assert(same<DataType::int64, FABRING_TYPE_INT64>);
static_assert(same<DataType::uint8, FABRING_TYPE_UINT8>);
static_assert(same<DataType::uint16, FABRING_TYPE_UINT16>);
static_assert(same<DataType::uint32, FABRING_TYPE_UINT32>);
static_assert(same<DataType::uint64, FABRING_TYPE_UINT64>);
static_assert(same<DataType::float8_e4m3, FABRING_TYPE_FLOAT8_E4M3>);
static_assert(same<DataType::float8_e5m2, FABRING_TYPE_FLOAT8_E5M2>);
static_assert(same<DataType::boolean, FABRING_TYPE_BOOLEAN>);
static_assert(data_type_count == FABRING_TYPE_BOOLEAN + 1, "a new type needs a number in fabring.h");

static_assert(same<ReduceOp::sum, FABRING_OP_SUM>);
static_assert(same<ReduceOp::prod, FABRING_OP_PROD>);
static_assert(same<ReduceOp::min, FABRING_OP_MIN>);
static_assert(same<ReduceOp::max, FABRING_OP_MAX>);
static_assert(same<ReduceOp::avg, FABRING_OP_AVG>);
static_assert(same<ReduceOp::logical_and, FABRING_OP_LOGICAL_AND>);
static_assert(same<ReduceOp::logical_or, FABRING_OP_LOGICAL_OR>);
static_assert(same<ReduceOp::logical_xor, FABRING_OP_LOGICAL_XOR>);
static_assert(same<ReduceOp::bitwise_and, FABRING_OP_BITWISE_AND>);
static_assert(same<ReduceOp::bitwise_or, FABRING_OP_BITWISE_OR>);
static_assert(same<ReduceOp::bitwise_xor, FABRING_OP_BITWISE_XOR>);
static_assert(same<ReduceOp::premul_sum, FABRING_OP_PREMUL_SUM>);
static_assert(same<ReduceOp::user, FABRING_OP_USER>);
static_assert(reduce_op_count == FABRING_OP_USER + 1, "a new reduction needs a number in fabring.h");

static_assert(same<Collective::allreduce, FABRING_COLLECTIVE_ALLREDUCE>);
static_assert(same<Collective::reduce, FABRING_COLLECTIVE_REDUCE>);
static_assert(same<Collective::reduce_scatter, FABRING_COLLECTIVE_REDUCE_SCATTER>);
static_assert(same<Collective::all_gather, FABRING_COLLECTIVE_ALL_GATHER>);
static_assert(same<Collective::broadcast, FABRING_COLLECTIVE_BROADCAST>);
static_assert(same<Collective::gather, FABRING_COLLECTIVE_GATHER>);
static_assert(same<Collective::scatter, FABRING_COLLECTIVE_SCATTER>);
static_assert(same<Collective::alltoall, FABRING_COLLECTIVE_ALLTOALL>);
static_assert(same<Collective::barrier, FABRING_COLLECTIVE_BARRIER>);
static_assert(same<Collective::send, FABRING_COLLECTIVE_SEND>);
static_assert(same<Collective::recv, FABRING_COLLECTIVE_RECV>);
static_assert(collective_count == FABRING_COLLECTIVE_RECV + 1, "a new collective needs a number in fabring.h");

static_assert(any_source == FABRING_ANY_SOURCE && any_tag == FABRING_ANY_TAG);

bool is_one_of(std::int32_t number, int count) { return number >= 0 && number < count; }

// All names are string literals, so they end with a NUL.
template <class Enumeration>
const char* name_of(std::int32_t number, int count) {
  return is_one_of(number, count) ? name(static_cast<Enumeration>(number)).data() : "unknown";
}

template <class Parse>
fabring_status_code parse(const char* text, std::int32_t* into, const char* what, fabring_error* error, Parse&& read) {
  return answer(error, [&]() -> Status {
    if (text == nullptr) return null_argument("text");
    if (into == nullptr) return null_argument(what);
    const auto found = read(text);
    if (!found)
      return {ErrorCode::invalid_argument, fmt::format("'{}' is no {}", std::string_view(text).substr(0, 200), what)};
    *into = static_cast<std::int32_t>(*found);
    return {};
  });
}

}  // namespace
}  // namespace fabring::c_api

using namespace fabring::c_api;

const char* fabring_version() { return FABRING_VERSION; }

const char* fabring_status_name(std::int32_t code) {
  return name_of<fabring::ErrorCode>(code, FABRING_STATUS_DEVICE_ERROR + 1);
}

const char* fabring_data_type_name(fabring_data_type type) {
  return name_of<fabring::DataType>(type, fabring::data_type_count);
}

const char* fabring_reduce_op_name(fabring_reduce_op op) {
  return name_of<fabring::ReduceOp>(op, fabring::reduce_op_count);
}

const char* fabring_collective_name(fabring_collective collective) {
  return name_of<fabring::Collective>(collective, fabring::collective_count);
}

fabring_status_code fabring_parse_data_type(const char* text, fabring_data_type* type, fabring_error* error) {
  return parse(text, type, "type", error, fabring::parse_data_type);
}

fabring_status_code fabring_parse_reduce_op(const char* text, fabring_reduce_op* op, fabring_error* error) {
  return parse(text, op, "op", error, fabring::parse_reduce_op);
}

fabring_status_code fabring_parse_collective(const char* text, fabring_collective* collective, fabring_error* error) {
  return parse(text, collective, "collective", error, fabring::parse_collective);
}

std::size_t fabring_data_type_size(fabring_data_type type) {
  return is_one_of(type, fabring::data_type_count) ? size_of(static_cast<fabring::DataType>(type)) : 0;
}

int fabring_data_type_is_floating_point(fabring_data_type type) {
  return is_one_of(type, fabring::data_type_count) && is_floating_point(static_cast<fabring::DataType>(type)) ? 1 : 0;
}

int fabring_supports(fabring_data_type type, fabring_reduce_op op) {
  return is_one_of(type, fabring::data_type_count) && is_one_of(op, fabring::reduce_op_count) &&
                 supports(static_cast<fabring::DataType>(type), static_cast<fabring::ReduceOp>(op))
             ? 1
             : 0;
}

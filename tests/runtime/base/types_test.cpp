#include "fabring/types.hpp"

#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

namespace fabring {
namespace {

TEST(Types, are_parsed_by_their_own_names) {
  std::set<std::string_view> names;
  for (int i = 0; i < data_type_count; ++i) {
    const auto type = static_cast<DataType>(i);
    EXPECT_EQ(parse_data_type(name(type)), type);
    names.insert(name(type));
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(data_type_count));
  for (int i = 0; i < reduce_op_count; ++i) {
    const auto op = static_cast<ReduceOp>(i);
    EXPECT_EQ(parse_reduce_op(name(op)), op);
    names.insert(name(op));
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(data_type_count + reduce_op_count));
}

TEST(Types, have_other_names_too) {
  const std::vector<std::pair<const char*, DataType>> types{
      {"f64", DataType::float64},      {"bf16", DataType::bfloat16},
      {"e4m3", DataType::float8_e4m3}, {"fp8_e4m3", DataType::float8_e4m3}, {"float8_e4m3fn", DataType::float8_e4m3},
      {"e5m2", DataType::float8_e5m2}, {"fp8_e5m2", DataType::float8_e5m2}, {"boolean", DataType::boolean}};
  for (const auto& [text, type] : types) EXPECT_EQ(parse_data_type(text), type) << text;
  const std::vector<std::pair<const char*, ReduceOp>> ops{
      {"land", ReduceOp::logical_and}, {"lor", ReduceOp::logical_or}, {"lxor", ReduceOp::logical_xor},
      {"band", ReduceOp::bitwise_and}, {"bor", ReduceOp::bitwise_or}, {"bxor", ReduceOp::bitwise_xor}};
  for (const auto& [text, op] : ops) EXPECT_EQ(parse_reduce_op(text), op) << text;
  for (const char* nothing : {"", "float", "xor", "SUM", "e3m4"}) {
    EXPECT_EQ(parse_reduce_op(nothing), std::nullopt) << nothing;
    EXPECT_EQ(parse_data_type(nothing).has_value(), std::string_view(nothing) == "float") << nothing;
  }
}

TEST(Types, have_sizes) {
  const std::vector<std::pair<DataType, std::size_t>> sizes{
      {DataType::float64, 8},     {DataType::uint32, 4},      {DataType::float16, 2},
      {DataType::float8_e4m3, 1}, {DataType::float8_e5m2, 1}, {DataType::boolean, 1}};
  for (const auto& [type, bytes] : sizes) EXPECT_EQ(size_of(type), bytes) << name(type);
}

TEST(Types, support_what_has_a_meaning) {
  for (int t = 0; t < data_type_count; ++t) {
    const auto type = static_cast<DataType>(t);
    const bool floating = name(type).find("float") != std::string_view::npos;
    EXPECT_EQ(is_floating_point(type), floating) << name(type);
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max, ReduceOp::user})
      EXPECT_TRUE(supports(type, op)) << name(op) << " of " << name(type);
    for (const ReduceOp op : {ReduceOp::avg, ReduceOp::premul_sum})
      EXPECT_EQ(supports(type, op), type != DataType::boolean) << name(op) << " of " << name(type);
    for (const ReduceOp op : {ReduceOp::logical_and, ReduceOp::logical_or, ReduceOp::logical_xor, ReduceOp::bitwise_and,
                              ReduceOp::bitwise_or, ReduceOp::bitwise_xor})
      EXPECT_EQ(supports(type, op), !floating) << name(op) << " of " << name(type);
  }
}

TEST(Types, of_no_number_of_theirs_have_no_meaning) {
  for (const int number : {15, 16, 99, 255}) {
    const auto type = static_cast<DataType>(number);
    EXPECT_EQ(size_of(type), 0u);
    EXPECT_EQ(name(type), "unknown");
    EXPECT_FALSE(is_floating_point(type));
    EXPECT_FALSE(supports(type, ReduceOp::sum));
    EXPECT_EQ(name(static_cast<ReduceOp>(number)), "unknown");
    EXPECT_FALSE(supports(DataType::float32, static_cast<ReduceOp>(number)));
    EXPECT_EQ(name(static_cast<Collective>(number)), "unknown");
  }
}

}  // namespace
}  // namespace fabring

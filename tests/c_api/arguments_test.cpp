// What C lets through and must not crash: null pointers, handles of another kind, numbers of no enumeration.
#include <gmock/gmock.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "alone.hpp"

namespace fabring::c_api::tests {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class Arguments : public Alone {
 protected:
  void SetUp() override {
    Alone::SetUp();
    ASSERT_EQ(fabring_config_create(&config, &error), FABRING_STATUS_OK);
    barrier.collective = FABRING_COLLECTIVE_BARRIER;
    ASSERT_EQ(fabring_start(world, &barrier, &work, &error), FABRING_STATUS_OK) << error.message;
    ASSERT_EQ(fabring_prepare(world, &barrier, &prepared, &error), FABRING_STATUS_OK) << error.message;
  }
  void TearDown() override {
    EXPECT_EQ(fabring_prepared_free(prepared), FABRING_STATUS_OK);
    EXPECT_EQ(fabring_work_free(work), FABRING_STATUS_OK);
    EXPECT_EQ(fabring_config_free(config), FABRING_STATUS_OK);
    Alone::TearDown();
  }

  fabring_config* config = nullptr;
  fabring_work* work = nullptr;
  fabring_prepared* prepared = nullptr;
  fabring_operation barrier = FABRING_OPERATION_INIT;
};

TEST_F(Arguments, that_are_null_are_named) {
  fabring_error* e = &error;
  char text[8];
  const std::vector<std::pair<const char*, std::function<fabring_status_code()>>> calls = {
      {"text", [&] { return fabring_parse_data_type(nullptr, nullptr, e); }},
      {"type", [&] { return fabring_parse_data_type("f32", nullptr, e); }},
      {"op", [&] { return fabring_parse_reduce_op("sum", nullptr, e); }},
      {"collective", [&] { return fabring_parse_collective("reduce", nullptr, e); }},
      {"config", [&] { return fabring_config_create(nullptr, e); }},
      {"config", [&] { return fabring_config_create_from_environment(nullptr, e); }},
      {"config", [&] { return fabring_config_set(nullptr, "FABRING_RANK", "1", e); }},
      {"name", [&] { return fabring_config_set(config, nullptr, "1", e); }},
      {"value", [&] { return fabring_config_set(config, "FABRING_RANK", nullptr, e); }},
      {"config", [&] { return fabring_config_get(nullptr, "FABRING_RANK", text, 8, nullptr, e); }},
      {"name", [&] { return fabring_config_get(config, nullptr, text, 8, nullptr, e); }},
      {"config",
       [&] {
         fabring_engine* made;
         return fabring_engine_create(nullptr, &made, e);
       }},
      {"engine", [&] { return fabring_engine_create(config, nullptr, e); }},
      {"engine", [&] { return fabring_engine_create_from_environment(nullptr, e); }},
      {"engine",
       [&] {
         fabring_comm* made;
         return fabring_engine_world(nullptr, &made, e);
       }},
      {"world", [&] { return fabring_engine_world(engine, nullptr, e); }},
      {"engine", [&] { return fabring_engine_leave(nullptr, e); }},
      {"engine",
       [&] {
         fabring_traffic got = FABRING_TRAFFIC_INIT;
         return fabring_engine_traffic(nullptr, &got, e);
       }},
      {"traffic", [&] { return fabring_engine_traffic(engine, nullptr, e); }},
      {"engine", [&] { return fabring_engine_report(nullptr, text, 8, nullptr, e); }},
      {"text", [&] { return fabring_engine_report(engine, nullptr, 8, nullptr, e); }},
      {"engine", [&] { return fabring_engine_setting(nullptr, "FABRING_RANK", text, 8, nullptr, e); }},
      {"name", [&] { return fabring_engine_setting(engine, nullptr, text, 8, nullptr, e); }},
      {"store", [&] { return fabring_store_decline(nullptr, 1, FABRING_STATUS_UNAVAILABLE, "", e); }},
      {"comm", [&] { return fabring_run(nullptr, &barrier, e); }},
      {"operation", [&] { return fabring_run(world, nullptr, e); }},
      {"comm", [&] { return fabring_start(nullptr, &barrier, &work, e); }},
      {"operation",
       [&] {
         fabring_work* made;
         return fabring_start(world, nullptr, &made, e);
       }},
      {"work", [&] { return fabring_start(world, &barrier, nullptr, e); }},
      {"comm", [&] { return fabring_run_group(nullptr, &barrier, 1, e); }},
      {"operations", [&] { return fabring_run_group(world, nullptr, 1, e); }},
      {"comm",
       [&] {
         fabring_work* made;
         return fabring_start_group(nullptr, &barrier, 1, &made, e);
       }},
      {"operations",
       [&] {
         fabring_work* made;
         return fabring_start_group(world, nullptr, 1, &made, e);
       }},
      {"works", [&] { return fabring_start_group(world, &barrier, 1, nullptr, e); }},
      {"comm",
       [&] {
         fabring_prepared* made;
         return fabring_prepare(nullptr, &barrier, &made, e);
       }},
      {"operation",
       [&] {
         fabring_prepared* made;
         return fabring_prepare(world, nullptr, &made, e);
       }},
      {"prepared", [&] { return fabring_prepare(world, &barrier, nullptr, e); }},
      {"comm", [&] { return fabring_explain(nullptr, &barrier, text, 8, nullptr, e); }},
      {"operation", [&] { return fabring_explain(world, nullptr, text, 8, nullptr, e); }},
      {"text", [&] { return fabring_explain(world, &barrier, nullptr, 8, nullptr, e); }},
      {"prepared", [&] { return fabring_prepared_run(nullptr, e); }},
      {"prepared",
       [&] {
         fabring_work* made;
         return fabring_prepared_start(nullptr, &made, e);
       }},
      {"work", [&] { return fabring_prepared_start(prepared, nullptr, e); }},
      {"prepared",
       [&] {
         fabring_work* made;
         return fabring_prepared_start_on(nullptr, nullptr, &made, e);
       }},
      {"work", [&] { return fabring_prepared_start_on(prepared, nullptr, nullptr, e); }},
      {"work", [&] { return fabring_work_wait(nullptr, e); }},
      {"work", [&] { return fabring_work_wait_for(nullptr, 0, e); }},
      {"work",
       [&] {
         int done;
         return fabring_work_done(nullptr, &done, e);
       }},
      {"done", [&] { return fabring_work_done(work, nullptr, e); }},
      {"work", [&] { return fabring_work_status(nullptr, e); }},
      {"work",
       [&] {
         fabring_received got = FABRING_RECEIVED_INIT;
         return fabring_work_received(nullptr, &got, e);
       }},
      {"received", [&] { return fabring_work_received(work, nullptr, e); }},
      {"comm", [&] { return fabring_allreduce(nullptr, text, text, 1, FABRING_TYPE_INT8, FABRING_OP_SUM, e); }},
      {"comm", [&] { return fabring_reduce(nullptr, text, text, 1, FABRING_TYPE_INT8, FABRING_OP_SUM, 0, e); }},
      {"comm", [&] { return fabring_reduce_scatter(nullptr, text, text, 1, FABRING_TYPE_INT8, FABRING_OP_SUM, e); }},
      {"comm", [&] { return fabring_all_gather(nullptr, text, text, 1, FABRING_TYPE_INT8, e); }},
      {"comm", [&] { return fabring_broadcast(nullptr, text, 1, FABRING_TYPE_INT8, 0, e); }},
      {"comm", [&] { return fabring_gather(nullptr, text, text, 1, FABRING_TYPE_INT8, 0, e); }},
      {"comm", [&] { return fabring_scatter(nullptr, text, text, 1, FABRING_TYPE_INT8, 0, e); }},
      {"comm", [&] { return fabring_alltoall(nullptr, text, text, 1, FABRING_TYPE_INT8, e); }},
      {"comm", [&] { return fabring_barrier(nullptr, e); }},
      {"comm", [&] { return fabring_send(nullptr, text, 1, FABRING_TYPE_INT8, 0, 0, e); }},
      {"comm", [&] { return fabring_recv(nullptr, text, 1, FABRING_TYPE_INT8, 0, 0, e); }},
      {"comm",
       [&] {
         std::int32_t got;
         return fabring_comm_rank(nullptr, &got, e);
       }},
      {"rank", [&] { return fabring_comm_rank(world, nullptr, e); }},
      {"comm",
       [&] {
         std::int32_t got;
         return fabring_comm_size(nullptr, &got, e);
       }},
      {"size", [&] { return fabring_comm_size(world, nullptr, e); }},
      {"comm", [&] { return fabring_comm_label(nullptr, text, 8, nullptr, e); }},
      {"text", [&] { return fabring_comm_label(world, nullptr, 8, nullptr, e); }},
      {"comm",
       [&] {
         std::int32_t got;
         return fabring_comm_nodes(nullptr, &got, 1, e);
       }},
      {"nodes", [&] { return fabring_comm_nodes(world, nullptr, 1, e); }},
      {"comm",
       [&] {
         std::int32_t got;
         return fabring_comm_members(nullptr, &got, 1, e);
       }},
      {"members", [&] { return fabring_comm_members(world, nullptr, 1, e); }},
      {"comm",
       [&] {
         fabring_comm* made;
         return fabring_comm_split(nullptr, 0, 0, nullptr, &made, e);
       }},
      {"made", [&] { return fabring_comm_split(world, 0, 0, nullptr, nullptr, e); }},
      {"comm",
       [&] {
         fabring_comm* made;
         return fabring_comm_split_by_node(nullptr, nullptr, &made, e);
       }},
      {"made", [&] { return fabring_comm_split_by_node(world, nullptr, nullptr, e); }},
      {"comm",
       [&] {
         fabring_comm* made;
         return fabring_comm_duplicate(nullptr, nullptr, &made, e);
       }},
      {"made", [&] { return fabring_comm_duplicate(world, nullptr, nullptr, e); }},
      {"comm",
       [&] {
         fabring_comm* made;
         return fabring_comm_with_plans(nullptr, "[]", 2, nullptr, &made, e);
       }},
      {"made", [&] { return fabring_comm_with_plans(world, "[]", 2, nullptr, nullptr, e); }},
      {"comm", [&] { return fabring_comm_abort(nullptr, nullptr, e); }},
      {"comm", [&] { return fabring_comm_refuse(nullptr, nullptr, nullptr, e); }},
      {"comm", [&] { return fabring_comm_refuse_subgroup(nullptr, 1, nullptr, e); }},
      {"comm", [&] { return fabring_comm_health(nullptr, e); }},
  };
  fabring_work* const kept = work;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    error = FABRING_ERROR_INIT;
    EXPECT_EQ(calls[i].second(), FABRING_STATUS_INVALID_ARGUMENT) << "call " << i;
    EXPECT_EQ(error.code, FABRING_STATUS_INVALID_ARGUMENT) << "call " << i;
    EXPECT_EQ(std::string(error.message), std::string("the argument '") + calls[i].first + "' is null") << "call " << i;
    work = kept;  // a failed start has set it to null
  }
}

TEST_F(Arguments, that_are_null_may_be_freed) {
  EXPECT_EQ(fabring_config_free(nullptr), FABRING_STATUS_OK);
  EXPECT_EQ(fabring_engine_destroy(nullptr), FABRING_STATUS_OK);
  EXPECT_EQ(fabring_comm_free(nullptr), FABRING_STATUS_OK);
  EXPECT_EQ(fabring_work_free(nullptr), FABRING_STATUS_OK);
  EXPECT_EQ(fabring_prepared_free(nullptr), FABRING_STATUS_OK);
}

TEST_F(Arguments, for_the_error_may_be_null) {
  EXPECT_EQ(fabring_barrier(world, nullptr), FABRING_STATUS_OK);
  EXPECT_EQ(fabring_barrier(nullptr, nullptr), FABRING_STATUS_INVALID_ARGUMENT);
}

TEST_F(Arguments, of_another_kind_of_handle_are_refused) {
  auto* disguised = reinterpret_cast<fabring_comm*>(engine);
  EXPECT_EQ(fabring_barrier(disguised, &error), FABRING_STATUS_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("'comm' is a handle of another kind"));
  EXPECT_EQ(fabring_comm_free(disguised), FABRING_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(fabring_engine_leave(reinterpret_cast<fabring_engine*>(work), &error), FABRING_STATUS_INVALID_ARGUMENT);
}

TEST_F(Arguments, that_are_no_number_of_an_enumeration_are_refused) {
  char data = 0;
  for (const std::int32_t number : {-1, 15, 256, 257, INT32_MAX, INT32_MIN}) {  // 256: not to become 0 on the way
    EXPECT_EQ(fabring_allreduce(world, &data, &data, 1, number, FABRING_OP_SUM, &error),
              FABRING_STATUS_INVALID_ARGUMENT)
        << number;
    EXPECT_THAT(error.message,
                StartsWith("fabring_allreduce, the argument type: there is no data type " + std::to_string(number)));
    EXPECT_STREQ(error.collective, "allreduce");
    EXPECT_EQ(error.rank, 0);
    EXPECT_EQ(fabring_allreduce(world, &data, &data, 1, FABRING_TYPE_INT8, number, &error),
              FABRING_STATUS_INVALID_ARGUMENT)
        << number;
    EXPECT_THAT(error.message,
                StartsWith("fabring_allreduce, the argument op: there is no reduction " + std::to_string(number)));
    barrier.collective = number;
    EXPECT_EQ(fabring_run(world, &barrier, &error), FABRING_STATUS_INVALID_ARGUMENT) << number;
    EXPECT_THAT(error.message,
                StartsWith("fabring_run: the field collective of a fabring_operation: there is no collective " +
                           std::to_string(number)));
    EXPECT_STREQ(error.collective, "") << "it is none";
    EXPECT_EQ(error.rank, 0);
    EXPECT_STREQ(fabring_data_type_name(number), "unknown");
    EXPECT_STREQ(fabring_reduce_op_name(number), "unknown");
    EXPECT_STREQ(fabring_collective_name(number), "unknown");
    EXPECT_STREQ(fabring_status_name(number), "unknown");
    EXPECT_EQ(fabring_data_type_size(number), 0u);
    EXPECT_EQ(fabring_supports(number, FABRING_OP_SUM), 0);
    EXPECT_EQ(fabring_supports(FABRING_TYPE_INT8, number), 0);
  }
}

TEST_F(Arguments, for_memory_of_a_gpu_are_refused_where_none_is_used) {
  float in[2] = {1, 2}, out[2] = {0, 0};
  fabring_operation operation = FABRING_OPERATION_INIT;
  operation.in = in;
  operation.out = out;
  operation.count = 2;
  operation.memory = 3;
  EXPECT_EQ(fabring_run(world, &operation, &error), FABRING_STATUS_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("no kind of memory 3"));
  operation.memory = FABRING_MEMORY_HOST;
  EXPECT_EQ(fabring_run(world, &operation, &error), FABRING_STATUS_OK) << error.message;
  operation.memory = FABRING_MEMORY_DEVICE;
  EXPECT_EQ(operation.device, -1) << "none is meant until one is said";
  for (const std::int32_t device : {-1, 0}) {
    operation.device = device;
    const fabring_status_code refused = fabring_run(world, &operation, &error);
    if (refused == FABRING_STATUS_UNSUPPORTED) {
      EXPECT_THAT(error.message, HasSubstr("was built without CUDA"));
    } else {
      EXPECT_EQ(refused, FABRING_STATUS_INVALID_ARGUMENT) << error.message;
      EXPECT_THAT(error.message, HasSubstr(device < 0 ? "there is no GPU -1; say which one the buffers are of"
                                                      : "this process has not begun to use CUDA"));
    }
    EXPECT_EQ(fabring_barrier(world, &error), FABRING_STATUS_OK) << "the communicator stays usable: " << error.message;
  }
}

TEST_F(Arguments, of_a_group_that_is_too_large_are_refused_and_nothing_is_written_for_them) {
  fabring_work* made[2] = {nullptr, work};
  EXPECT_EQ(fabring_start_group(world, &barrier, SIZE_MAX, made, &error), FABRING_STATUS_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, testing::HasSubstr("18446744073709551615 operations; 1048576 are possible"));
  EXPECT_EQ(made[1], work);
}

TEST_F(Arguments, that_are_wrong_are_reported_by_start_at_once) {
  fabring_operation operation = FABRING_OPERATION_INIT;
  operation.count = 1;  // of null buffers
  fabring_work* made = work;
  EXPECT_EQ(fabring_start(world, &operation, &made, &error), FABRING_STATUS_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "allreduce(1 x float32, sum) on 'world', rank 0: the input is null");
  EXPECT_STREQ(error.collective, "allreduce");
  EXPECT_EQ(error.rank, 0);
  EXPECT_EQ(error.bytes, 4u);
  EXPECT_EQ(made, nullptr);
  operation.collective = FABRING_COLLECTIVE_SEND;
  fabring_prepared* ready = prepared;
  EXPECT_EQ(fabring_prepare(world, &operation, &ready, &error), FABRING_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(ready, nullptr);
}

TEST_F(Arguments, in_fields_say_which_and_in_which_call) {
  const std::size_t one = 1;
  char data = 0;
  fabring_operation operation = FABRING_OPERATION_INIT;
  operation.in = operation.out = &data;
  operation.type = 99;
  fabring_prepared* ready = nullptr;
  EXPECT_EQ(fabring_prepare(world, &operation, &ready, &error), FABRING_STATUS_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message,
               "fabring_prepare: the field type of a fabring_operation: there is no data type 99; they are 0 to 14");
  EXPECT_EQ(fabring_run_group(world, &operation, 1, &error), FABRING_STATUS_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, StartsWith("fabring_run_group: operation 0 of the group: the field type of "));
  EXPECT_STREQ(error.collective, "allreduce");
  EXPECT_EQ(error.rank, 0);
  EXPECT_EQ(fabring_comm_subgroup(world, nullptr, 1, 1, nullptr, nullptr, &error), FABRING_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(error.rank, 0);
  operation.type = FABRING_TYPE_INT8;
  operation.collective = FABRING_COLLECTIVE_ALL_GATHER;
  operation.offsets = &one;
  EXPECT_EQ(fabring_run(world, &operation, &error), FABRING_STATUS_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("counts is empty (in C: NULL)"));
  EXPECT_EQ(fabring_allreduce(world, &data, &data, 1, FABRING_TYPE_INT8, FABRING_OP_USER, &error),
            FABRING_STATUS_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("in C fabring_run with the field function"));
  EXPECT_EQ(fabring_allreduce(world, &data, &data, 1, FABRING_TYPE_INT8, FABRING_OP_PREMUL_SUM, &error),
            FABRING_STATUS_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("in C fabring_run with the field factor (of integers: whole_factor)"));
}

TEST_F(Arguments, of_received_may_be_no_receive) {
  fabring_received received = FABRING_RECEIVED_INIT;
  received.source = 7;
  ASSERT_EQ(fabring_work_wait(work, &error), FABRING_STATUS_OK) << error.message;
  EXPECT_EQ(fabring_work_received(work, &received, &error), FABRING_STATUS_OK) << error.message;
  EXPECT_EQ(received.source, -1);
  EXPECT_EQ(received.tag, -1);
  EXPECT_EQ(received.count, 0u);
}

TEST(Names, are_those_of_the_command_line) {
  EXPECT_STREQ(fabring_status_name(FABRING_STATUS_PEER_LOST), "peer_lost");
  EXPECT_STREQ(fabring_status_name(FABRING_STATUS_DEVICE_ERROR), "device_error");
  EXPECT_STREQ(fabring_data_type_name(FABRING_TYPE_BFLOAT16), "bfloat16");
  EXPECT_STREQ(fabring_reduce_op_name(FABRING_OP_LOGICAL_AND), "logical_and");
  EXPECT_STREQ(fabring_collective_name(FABRING_COLLECTIVE_ALL_GATHER), "all_gather");
  fabring_data_type type = -1;
  fabring_reduce_op op = -1;
  fabring_collective collective = -1;
  fabring_error error = FABRING_ERROR_INIT;
  EXPECT_EQ(fabring_parse_data_type("half", &type, &error), FABRING_STATUS_OK);
  EXPECT_EQ(type, FABRING_TYPE_FLOAT16);
  EXPECT_EQ(fabring_parse_reduce_op("bxor", &op, &error), FABRING_STATUS_OK);
  EXPECT_EQ(op, FABRING_OP_BITWISE_XOR);
  EXPECT_EQ(fabring_parse_collective("alltoall", &collective, &error), FABRING_STATUS_OK);
  EXPECT_EQ(collective, FABRING_COLLECTIVE_ALLTOALL);
  EXPECT_EQ(fabring_parse_data_type("float128", &type, &error), FABRING_STATUS_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "'float128' is no type");
  EXPECT_EQ(fabring_data_type_size(FABRING_TYPE_INT16), 2u);
  EXPECT_EQ(fabring_data_type_is_floating_point(FABRING_TYPE_FLOAT8_E5M2), 1);
  EXPECT_EQ(fabring_data_type_is_floating_point(FABRING_TYPE_INT64), 0);
  EXPECT_EQ(fabring_supports(FABRING_TYPE_INT8, FABRING_OP_BITWISE_AND), 1);
  EXPECT_EQ(fabring_supports(FABRING_TYPE_FLOAT32, FABRING_OP_BITWISE_AND), 0);
}

}  // namespace
}  // namespace fabring::c_api::tests

// Every operation of fabring.h on three ranks.
#include <gmock/gmock.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "ranks.hpp"

namespace fabring::c_api::tests {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::StartsWith;
using Ints = std::vector<std::int32_t>;

constexpr int ranks = 3;
constexpr auto int32 = FABRING_TYPE_INT32;

TEST(Named, operations_give_what_they_say) {
  run_ranks(ranks, [](Rank self) {
    fabring_error error = FABRING_ERROR_INIT;
    fabring_comm* world = self.world;
    const std::int32_t r = self.rank;
    const Ints mine = {10 * r, 10 * r + 1, 10 * r + 2};
    Ints out(3, -1);
    EXPECT_OK(fabring_allreduce(world, mine.data(), out.data(), 3, int32, FABRING_OP_SUM, &error));
    EXPECT_THAT(out, ElementsAre(30, 33, 36));
    out = Ints(3, -1);
    EXPECT_OK(fabring_reduce(world, mine.data(), r == 1 ? out.data() : nullptr, 3, int32, FABRING_OP_MAX, 1, &error));
    EXPECT_THAT(out, r == 1 ? ElementsAre(20, 21, 22) : ElementsAre(-1, -1, -1));
    out = Ints(1, -1);
    EXPECT_OK(fabring_reduce_scatter(world, mine.data(), out.data(), 1, int32, FABRING_OP_SUM, &error));
    EXPECT_THAT(out, ElementsAre(30 + 3 * r));
    out = Ints(6, -1);
    EXPECT_OK(fabring_all_gather(world, mine.data(), out.data(), 2, int32, &error));
    EXPECT_THAT(out, ElementsAre(0, 1, 10, 11, 20, 21));
    out = mine;
    EXPECT_OK(fabring_broadcast(world, out.data(), 3, int32, 2, &error));
    EXPECT_THAT(out, ElementsAre(20, 21, 22));
    out = Ints(3, -1);
    EXPECT_OK(fabring_gather(world, mine.data(), r == 0 ? out.data() : nullptr, 1, int32, 0, &error));
    EXPECT_THAT(out, r == 0 ? ElementsAre(0, 10, 20) : ElementsAre(-1, -1, -1));
    out = Ints(1, -1);
    EXPECT_OK(fabring_scatter(world, r == 2 ? mine.data() : nullptr, out.data(), 1, int32, 2, &error));
    EXPECT_THAT(out, ElementsAre(20 + r));
    out = Ints(3, -1);
    EXPECT_OK(fabring_alltoall(world, mine.data(), out.data(), 1, int32, &error));
    EXPECT_THAT(out, ElementsAre(r, 10 + r, 20 + r));
    if (r == 0) {
      EXPECT_OK(fabring_send(world, mine.data(), 3, int32, 1, 7, &error));
    }
    if (r == 1) {
      EXPECT_OK(fabring_recv(world, out.data(), 3, int32, 0, 7, &error));
    }
    EXPECT_THAT(out, r == 1 ? ElementsAre(0, 1, 2) : ElementsAre(r, 10 + r, 20 + r));
    EXPECT_OK(fabring_barrier(world, &error));
  });
}

TEST(Operations, of_several_tensors_reduce_each) {
  run_ranks(ranks, [](Rank self) {
    fabring_error error = FABRING_ERROR_INIT;
    const std::int32_t r = self.rank;
    Ints one = {r, r + 1}, three = {5, 6, 7};
    const Ints two(100'000, r);
    Ints sum_of_two(two.size(), -1);
    const fabring_tensor tensors[] = {{one.data(), one.data(), 2},
                                      {two.data(), sum_of_two.data(), two.size()},
                                      {nullptr, nullptr, 0},
                                      {three.data(), three.data(), 3}};
    EXPECT_OK(fabring_grouped_allreduce(self.world, tensors, 4, int32, FABRING_OP_SUM, &error));
    EXPECT_THAT(one, ElementsAre(3, 6));
    EXPECT_EQ(sum_of_two, Ints(two.size(), 3));
    EXPECT_THAT(three, ElementsAre(15, 18, 21));

    fabring_operation operation = FABRING_OPERATION_INIT;
    operation.type = int32;
    operation.op = FABRING_OP_MAX;
    operation.tensors = tensors;
    operation.tensor_count = 2;
    fabring_prepared* prepared = nullptr;
    EXPECT_OK(fabring_prepare(self.world, &operation, &prepared, &error));
    one = {r, -r};
    EXPECT_OK(fabring_prepared_run(prepared, &error));
    EXPECT_THAT(one, ElementsAre(2, 0));
    EXPECT_EQ(sum_of_two, Ints(two.size(), 2));
    EXPECT_EQ(fabring_prepared_free(prepared), FABRING_STATUS_OK);

    EXPECT_EQ(fabring_grouped_allreduce(self.world, nullptr, 1, int32, FABRING_OP_SUM, &error),
              FABRING_STATUS_INVALID_ARGUMENT);
    EXPECT_THAT(error.message, HasSubstr("tensors"));
    operation.count = 1;
    EXPECT_EQ(fabring_run(self.world, &operation, &error), FABRING_STATUS_INVALID_ARGUMENT);
    EXPECT_THAT(error.message, HasSubstr("besides"));
  });
}

TEST(Operations, may_travel_as_another_type) {
  run_ranks(ranks, [](Rank self) {
    fabring_error error = FABRING_ERROR_INIT;
    const std::vector<float> in(1000, 1 + 0x1p-10f);  // not of bfloat16
    std::vector<float> out(in.size());
    fabring_operation operation = FABRING_OPERATION_INIT;
    operation.in = in.data();
    operation.out = out.data();
    operation.count = in.size();
    EXPECT_OK(fabring_run(self.world, &operation, &error));
    EXPECT_FLOAT_EQ(out[999], 3 + 3 * 0x1p-10f);
    operation.wire_type = FABRING_TYPE_BFLOAT16;
    EXPECT_OK(fabring_run(self.world, &operation, &error));
    EXPECT_EQ(out, std::vector<float>(in.size(), 3));
    operation.wire_type = FABRING_TYPE_INT8;
    EXPECT_EQ(fabring_run(self.world, &operation, &error), FABRING_STATUS_UNSUPPORTED);
    EXPECT_THAT(error.message, HasSubstr("bfloat16 or float16"));
    operation.wire_type = 99;
    EXPECT_EQ(fabring_run(self.world, &operation, &error), FABRING_STATUS_INVALID_ARGUMENT);
    operation.wire_type = 0;
    operation.reserved = 1;
    EXPECT_EQ(fabring_run(self.world, &operation, &error), FABRING_STATUS_INVALID_ARGUMENT);
    EXPECT_THAT(error.message, HasSubstr("reserved"));
  });
}

TEST(Operations, of_blocks_of_different_lengths_take_arrays) {
  run_ranks(ranks, [](Rank self) {
    fabring_error error = FABRING_ERROR_INIT;
    const std::int32_t r = self.rank;
    const std::size_t counts[ranks] = {2, 0, 1}, offsets[ranks] = {2, 0, 0};
    const Ints mine(3, r + 1);
    Ints out(4, -1);
    fabring_operation gather = FABRING_OPERATION_INIT;
    gather.collective = FABRING_COLLECTIVE_ALL_GATHER;
    gather.type = int32;
    gather.in = mine.data();
    gather.out = out.data();
    gather.counts = counts;
    EXPECT_OK(fabring_run(self.world, &gather, &error));
    EXPECT_THAT(out, ElementsAre(1, 1, 3, -1)) << "one after the other";
    out.assign(4, -1);
    gather.offsets = offsets;
    EXPECT_OK(fabring_run(self.world, &gather, &error));
    EXPECT_THAT(out, ElementsAre(3, -1, 1, 1));

    // Rank i sends j elements to rank j.
    const std::size_t to[ranks] = {0, 1, 2};
    const std::vector<std::size_t> from(ranks, static_cast<std::size_t>(r));
    Ints got(6, -1);
    fabring_operation all = FABRING_OPERATION_INIT;
    all.collective = FABRING_COLLECTIVE_ALLTOALL;
    all.type = int32;
    all.in = mine.data();
    all.out = got.data();
    all.counts = to;
    all.out_counts = from.data();
    EXPECT_OK(fabring_run(self.world, &all, &error));
    Ints expected(6, -1);
    for (int i = 0; i < ranks * r; ++i) expected[i] = i / r + 1;
    EXPECT_THAT(got, ElementsAreArray(expected));
    all.out_counts = nullptr;
    EXPECT_EQ(fabring_run(self.world, &all, &error), FABRING_STATUS_INVALID_ARGUMENT) << "lengths of one side only";
  });
}

TEST(Operations, bring_factors_of_the_kind_of_their_type) {
  run_ranks(ranks, [](Rank self) {
    fabring_error error = FABRING_ERROR_INIT;
    float real = 2;
    std::int64_t whole = 3;
    fabring_operation operation = FABRING_OPERATION_INIT;
    operation.op = FABRING_OP_PREMUL_SUM;
    operation.count = 1;
    operation.factor = self.rank + 0.5;
    operation.whole_factor = (std::int64_t{1} << 60) + self.rank;  // more than a double holds
    operation.in = operation.out = &real;
    EXPECT_OK(fabring_run(self.world, &operation, &error));
    EXPECT_EQ(real, 9);
    operation.type = FABRING_TYPE_INT64;
    operation.in = operation.out = &whole;
    EXPECT_OK(fabring_run(self.world, &operation, &error));
    EXPECT_EQ(static_cast<std::uint64_t>(whole), 9 * (std::uint64_t{1} << 60) + 9);
  });
}

TEST(Operations, with_a_factor_in_the_field_of_the_other_kind_are_refused) {
  run_ranks(1, [](Rank self) {
    fabring_error error = FABRING_ERROR_INIT;
    const auto answer = [&](fabring_data_type type, double factor, std::int64_t whole_factor) {
      std::int64_t element = 0;
      fabring_operation operation = FABRING_OPERATION_INIT;
      operation.op = FABRING_OP_PREMUL_SUM;
      operation.type = type;
      operation.count = 1;
      operation.factor = factor;
      operation.whole_factor = whole_factor;
      operation.in = operation.out = &element;
      return fabring_run(self.world, &operation, &error);
    };
    EXPECT_EQ(answer(FABRING_TYPE_FLOAT16, 1, 3), FABRING_STATUS_INVALID_ARGUMENT);
    EXPECT_THAT(error.message, ::testing::HasSubstr("the field whole_factor of a fabring_operation is set, but "
                                                    "premul_sum of float16 elements takes factor, which is 1"));
    EXPECT_EQ(answer(int32, 0.5, 1), FABRING_STATUS_INVALID_ARGUMENT);
    EXPECT_THAT(error.message, ::testing::HasSubstr("the field factor of a fabring_operation is set, but premul_sum of "
                                                    "int32 elements takes whole_factor, which is 1"));
    EXPECT_EQ(answer(FABRING_TYPE_BOOLEAN, 0.5, 1), FABRING_STATUS_UNSUPPORTED) << error.message;
    for (const std::int64_t other : {-3, 0, 1, 2}) {
      EXPECT_OK(answer(FABRING_TYPE_FLOAT64, 2, other));
      EXPECT_OK(answer(int32, static_cast<double>(other), 2));
    }
    EXPECT_OK(answer(FABRING_TYPE_FLOAT32, 1, 0));
    EXPECT_OK(answer(int32, 0, 1));
    EXPECT_OK(answer(int32, 1, 1));
  });
}

struct Useless {
  const char* field;
  fabring_collective collective;
  std::function<void(fabring_operation&)> fill;
};

// What fabring.h lists, field by field.
const std::vector<Useless> useless_fields = {
    {"op, no number of one", FABRING_COLLECTIVE_BROADCAST, [](auto& of) { of.op = 99; }},
    {"op, which has no meaning for the type", FABRING_COLLECTIVE_ALL_GATHER,
     [](auto& of) { of.op = FABRING_OP_BITWISE_AND; }},
    {"op, whose factor is in the other field", FABRING_COLLECTIVE_BROADCAST,
     [](auto& of) {
       of.op = FABRING_OP_PREMUL_SUM;
       of.whole_factor = 5;
     }},
    {"op, whose function is missing", FABRING_COLLECTIVE_ALLTOALL, [](auto& of) { of.op = FABRING_OP_USER; }},
    {"root", FABRING_COLLECTIVE_ALLREDUCE, [](auto& of) { of.root = -77; }},
    {"tag", FABRING_COLLECTIVE_ALLREDUCE, [](auto& of) { of.tag = -77; }},
    {"factor", FABRING_COLLECTIVE_ALLREDUCE, [](auto& of) { of.factor = 7; }},
    {"whole_factor", FABRING_COLLECTIVE_ALLREDUCE, [](auto& of) { of.whole_factor = 7; }},
    {"function", FABRING_COLLECTIVE_ALLREDUCE, [](auto& of) { of.function = [](auto...) { std::abort(); }; }},
    {"context", FABRING_COLLECTIVE_ALLREDUCE, [](auto& of) { of.context = &of; }},
    {"commutes", FABRING_COLLECTIVE_ALLREDUCE, [](auto& of) { of.commutes = 0; }},
    {"stream", FABRING_COLLECTIVE_ALLREDUCE, [](auto& of) { of.stream = &of; }},
    {"device", FABRING_COLLECTIVE_ALLREDUCE, [](auto& of) { of.device = 77; }},
    {"type of a barrier", FABRING_COLLECTIVE_BARRIER, [](auto& of) { of.type = 99; }},
    {"op of a barrier", FABRING_COLLECTIVE_BARRIER, [](auto& of) { of.op = 99; }},
    {"count of a barrier", FABRING_COLLECTIVE_BARRIER, [](auto& of) { of.count = SIZE_MAX; }},
    {"in of a barrier", FABRING_COLLECTIVE_BARRIER, [](auto& of) { of.in = nullptr; }},
    {"out of a barrier", FABRING_COLLECTIVE_BARRIER, [](auto& of) { of.out = reinterpret_cast<void*>(1); }},
};

TEST(Operations, pass_over_what_is_in_fields_that_they_have_no_use_for) {
  run_ranks(1, [](Rank self) {
    fabring_error error = FABRING_ERROR_INIT;
    for (const Useless& one : useless_fields) {
      SCOPED_TRACE(one.field);
      const float in[2] = {1, 2};
      float out[2] = {0, 0};
      fabring_operation operation = FABRING_OPERATION_INIT;
      operation.collective = one.collective;
      operation.in = in;
      operation.out = out;
      operation.count = 2;
      operation.memory = FABRING_MEMORY_HOST;
      one.fill(operation);
      EXPECT_OK(fabring_run(self.world, &operation, &error));
      if (one.collective != FABRING_COLLECTIVE_BARRIER) {
        EXPECT_THAT(out, ElementsAre(1, 2));
      }
    }
  });
}

extern "C" void keep_left(void* inout, const void* in, std::size_t count, std::uint8_t type, void* context) {
  (void)inout;
  (void)in;
  if (type == FABRING_TYPE_INT32 && count > 0) *static_cast<bool*>(context) = true;
}

TEST(Operations, of_the_callers_own_get_type_and_context_and_the_order_of_ranks) {
  bool called[ranks] = {};
  run_ranks(ranks, [&](Rank self) {
    fabring_error error = FABRING_ERROR_INIT;
    std::int32_t value = 100 + self.rank;
    fabring_operation operation = FABRING_OPERATION_INIT;
    operation.collective = FABRING_COLLECTIVE_REDUCE;
    operation.op = FABRING_OP_USER;
    operation.type = int32;
    operation.count = 1;
    operation.in = operation.out = &value;
    operation.root = 2;
    operation.function = keep_left;
    operation.context = &called[self.rank];
    operation.commutes = 0;
    EXPECT_OK(fabring_run(self.world, &operation, &error));
    if (self.rank == 2) {
      EXPECT_EQ(value, 100) << "of operands in the order of the ranks the leftmost stays";
    }
  });
  EXPECT_TRUE(called[0] || called[1] || called[2]);
}

TEST(Operations, may_have_a_limit_of_their_own) {
  run_ranks(2, [](Rank self) {
    fabring_error error = FABRING_ERROR_INIT;
    fabring_operation barrier = FABRING_OPERATION_INIT;
    barrier.collective = FABRING_COLLECTIVE_BARRIER;
    barrier.timeout_ns = UINT64_C(60'000'000'000);
    EXPECT_OK(fabring_run(self.world, &barrier, &error));
    if (self.rank == 0) {
      barrier.timeout_ns = 150'000'000;
      EXPECT_EQ(fabring_run(self.world, &barrier, &error), FABRING_STATUS_TIMEOUT);
      EXPECT_THAT(error.message, HasSubstr("gave up after 150 ms (the timeout of this operation)"));
      EXPECT_THAT(error.message, HasSubstr("rank 1"));
    } else {
      // Told by the other one; nothing was called here.
      std::int32_t value = 0;
      fabring_operation recv = FABRING_OPERATION_INIT;
      recv.collective = FABRING_COLLECTIVE_RECV;
      recv.out = &value;
      recv.count = 1;
      recv.type = int32;
      fabring_work* work = nullptr;
      EXPECT_OK(fabring_start(self.world, &recv, &work, &error));
      EXPECT_EQ(fabring_work_wait(work, &error), FABRING_STATUS_TIMEOUT) << error.message;
      EXPECT_OK(fabring_work_free(work));
    }
  });
}

TEST(Groups, go_side_by_side) {
  run_ranks(ranks, [](Rank self) {
    fabring_error error = FABRING_ERROR_INIT;
    const std::size_t count = 100'000;  // a ring of sends would wait for itself one by one
    const Ints mine(count, self.rank);
    Ints left(count, -1);
    fabring_operation group[2] = {FABRING_OPERATION_INIT, FABRING_OPERATION_INIT};
    for (fabring_operation& one : group) {
      one.type = int32;
      one.count = count;
    }
    group[0].collective = FABRING_COLLECTIVE_SEND;
    group[0].in = mine.data();
    group[0].root = (self.rank + 1) % ranks;
    group[1].collective = FABRING_COLLECTIVE_RECV;
    group[1].out = left.data();
    group[1].root = (self.rank + ranks - 1) % ranks;
    EXPECT_OK(fabring_run_group(self.world, group, 2, &error));
    EXPECT_EQ(left.back(), (self.rank + ranks - 1) % ranks);
    left.assign(count, -1);
    fabring_work* works[2] = {};
    EXPECT_OK(fabring_start_group(self.world, group, 2, works, &error));
    for (fabring_work* work : works) {
      EXPECT_OK(fabring_work_wait(work, &error));
      EXPECT_OK(fabring_work_free(work));
    }
    EXPECT_EQ(left.front(), (self.rank + ranks - 1) % ranks);
    group[0].in = left.data();
    EXPECT_EQ(fabring_run_group(self.world, group, 2, &error), FABRING_STATUS_INVALID_ARGUMENT);
    EXPECT_THAT(error.message, HasSubstr("operations 0 and 1 overlap"));
    EXPECT_OK(fabring_run_group(self.world, nullptr, 0, &error));
  });
}

TEST(Prepared, operations_start_again_and_again_with_what_is_in_their_buffers) {
  run_ranks(ranks, [](Rank self) {
    fabring_error error = FABRING_ERROR_INIT;
    std::int32_t value = 0;
    fabring_operation operation = FABRING_OPERATION_INIT;
    operation.type = int32;
    operation.in = operation.out = &value;
    operation.count = 1;
    fabring_prepared* prepared = nullptr;
    ASSERT_EQ(fabring_prepare(self.world, &operation, &prepared, &error), FABRING_STATUS_OK) << error.message;
    for (int i = 1; i <= 3; ++i) {
      value = i;
      EXPECT_OK(fabring_prepared_run(prepared, &error));
      EXPECT_EQ(value, i * ranks);
    }
    value = 5;
    fabring_work* work = nullptr;
    EXPECT_OK(fabring_prepared_start(prepared, &work, &error));
    EXPECT_OK(fabring_work_wait(work, &error));
    EXPECT_EQ(value, 5 * ranks);
    EXPECT_OK(fabring_work_free(work));
    value = 6;
    EXPECT_OK(fabring_prepared_start_on(prepared, nullptr, &work, &error));
    EXPECT_OK(fabring_prepared_free(prepared));  // under way or not
    EXPECT_OK(fabring_work_wait(work, &error));
    EXPECT_EQ(value, 6 * ranks);
    EXPECT_OK(fabring_work_free(work));
  });
}

TEST(Explain, names_the_algorithm_and_the_others) {
  run_ranks(ranks, [](Rank self) {
    fabring_error error = FABRING_ERROR_INIT;
    fabring_operation operation = FABRING_OPERATION_INIT;
    operation.count = 1 << 20;
    std::size_t needed = 0;
    EXPECT_OK(fabring_explain(self.world, &operation, nullptr, 0, &needed, &error));
    std::string text(needed + 1, 'x');
    EXPECT_OK(fabring_explain(self.world, &operation, text.data(), text.size(), nullptr, &error));
    EXPECT_EQ(text.find('\0'), needed);
    EXPECT_THAT(text, HasSubstr("\nring "));
    EXPECT_THAT(text, HasSubstr(" us\n"));
    const std::string chosen = text.substr(0, text.find(':'));
    EXPECT_THAT(text.substr(text.find('\n') + 1), StartsWith(chosen + " ")) << "the fastest is the one chosen";
  });
}

TEST(Explain, has_nothing_to_say_of_what_could_not_run) {
  run_ranks(1, [](Rank self) {
    fabring_error error = FABRING_ERROR_INIT;
    fabring_operation operation = FABRING_OPERATION_INIT;
    operation.count = 4;
    operation.op = FABRING_OP_BITWISE_AND;  // of float32
    char text[1000] = "as it was";
    std::size_t needed = 7;
    EXPECT_EQ(fabring_explain(self.world, &operation, text, sizeof text, &needed, &error), FABRING_STATUS_UNSUPPORTED);
    EXPECT_THAT(error.message, HasSubstr("has no meaning"));
    EXPECT_STREQ(text, "as it was");
  });
  fabring_comm* left = nullptr;
  run_ranks(1, [&](Rank self) { EXPECT_EQ(fabring_engine_world(self.engine, &left, nullptr), FABRING_STATUS_OK); });
  fabring_error error = FABRING_ERROR_INIT;
  const fabring_operation operation = FABRING_OPERATION_INIT;
  char text[1000];
  EXPECT_EQ(fabring_explain(left, &operation, text, sizeof text, nullptr, &error), FABRING_STATUS_ABORTED);
  EXPECT_THAT(error.message, HasSubstr("the engine of this communicator is gone"));
  EXPECT_EQ(fabring_comm_free(left), FABRING_STATUS_OK);
}

TEST(Memory, says_whether_others_have_it_mapped) {
  for (const bool shares : {false, true})
    run_ranks(2,
              [&](Rank self) {
                fabring_error error = FABRING_ERROR_INIT;
                void* memory = nullptr;
                int shared = -1;
                EXPECT_OK(fabring_mem_alloc(self.engine, 100, &memory, &error));
                EXPECT_OK(fabring_mem_is_shared(memory, &shared, &error));
                EXPECT_EQ(shared, shares ? 1 : 0);
                EXPECT_EQ(fabring_mem_is_shared(memory, nullptr, &error), FABRING_STATUS_INVALID_ARGUMENT);
                EXPECT_EQ(fabring_mem_is_shared(&shared, &shared, &error), FABRING_STATUS_INVALID_ARGUMENT);
                EXPECT_THAT(error.message, HasSubstr("the argument 'memory' is not what fabring_mem_alloc gave"));
                EXPECT_EQ(fabring_mem_is_shared(nullptr, &shared, &error), FABRING_STATUS_INVALID_ARGUMENT);
                EXPECT_STREQ(error.message, "the argument 'memory' is null");
                EXPECT_EQ(fabring_mem_free(memory), FABRING_STATUS_OK);
                EXPECT_EQ(fabring_mem_is_shared(memory, &shared, &error), FABRING_STATUS_INVALID_ARGUMENT) << "freed";
                EXPECT_OK(fabring_barrier(self.world, &error));
              },
              {{"FABRING_TRANSPORT", shares ? "shm" : "tcp"}});
}

TEST(Memory, is_taken_by_operations_and_freed_at_any_time) {
  void* kept = nullptr;
  run_ranks(ranks, [&](Rank self) {
    fabring_error error = FABRING_ERROR_INIT;
    void* memory = nullptr;
    constexpr std::size_t count = 100'000;
    ASSERT_EQ(fabring_mem_alloc(self.engine, count * sizeof(float), &memory, &error), FABRING_STATUS_OK)
        << error.message;
    auto* const values = static_cast<float*>(memory);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 4096, 0u);
    EXPECT_EQ(values[count - 1], 0);
    std::fill_n(values, count, 1.0f);
    EXPECT_OK(fabring_allreduce(self.world, values, values, count, FABRING_TYPE_FLOAT32, FABRING_OP_SUM, &error));
    EXPECT_EQ(values[count - 1], static_cast<float>(ranks));
    if (self.rank == 0) kept = memory;
    if (self.rank != 0) {
      EXPECT_EQ(fabring_mem_free(memory), FABRING_STATUS_OK);
    }

    EXPECT_EQ(fabring_mem_alloc(self.engine, ~std::size_t{0}, &memory, &error), FABRING_STATUS_OUT_OF_MEMORY);
    EXPECT_EQ(memory, nullptr);
    EXPECT_EQ(fabring_mem_alloc(self.engine, 1, nullptr, &error), FABRING_STATUS_INVALID_ARGUMENT);
    EXPECT_EQ(fabring_mem_alloc(nullptr, 1, &memory, &error), FABRING_STATUS_INVALID_ARGUMENT);
  });
  EXPECT_EQ(static_cast<float*>(kept)[0], static_cast<float>(ranks)) << "it outlives its engine";
  EXPECT_EQ(fabring_mem_free(kept), FABRING_STATUS_OK);
  EXPECT_EQ(fabring_mem_free(kept), FABRING_STATUS_INVALID_ARGUMENT) << "freed already";
  EXPECT_EQ(fabring_mem_free(nullptr), FABRING_STATUS_OK);
}

}  // namespace
}  // namespace fabring::c_api::tests

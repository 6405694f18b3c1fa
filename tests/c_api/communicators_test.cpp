// Communicators and engines of fabring.h.
#include <gmock/gmock.h>

#include <array>
#include <future>
#include <string>

#include "alone.hpp"
#include "ranks.hpp"

namespace fabring::c_api::tests {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

std::string label_of(const fabring_comm* comm) {
  char text[100];
  EXPECT_EQ(fabring_comm_label(comm, text, sizeof text, nullptr, nullptr), FABRING_STATUS_OK);
  return text;
}

TEST(Communicators, say_who_is_in_them) {
  run_ranks(3, [](Rank self) {
    fabring_error error = FABRING_ERROR_INIT;
    std::int32_t rank = -1, size = -1, nodes[4] = {-1, -1, -1, -1};
    EXPECT_OK(fabring_comm_rank(self.world, &rank, &error));
    EXPECT_OK(fabring_comm_size(self.world, &size, &error));
    EXPECT_EQ(rank, self.rank);
    EXPECT_EQ(size, 3);
    EXPECT_EQ(label_of(self.world), "world");
    EXPECT_OK(fabring_comm_nodes(self.world, nodes, 4, &error));
    EXPECT_EQ(nodes[0], nodes[2]);
    EXPECT_EQ(nodes[3], -1) << "nothing is written past the ranks";
    EXPECT_EQ(fabring_comm_nodes(self.world, nodes, 2, &error), FABRING_STATUS_INVALID_ARGUMENT);
    EXPECT_THAT(error.message, HasSubstr("room for the nodes of 2 ranks, but 'world' has 3"));
    std::int32_t members[4] = {-1, -1, -1, -1};
    EXPECT_OK(fabring_comm_members(self.world, members, 4, &error));
    EXPECT_THAT(members, ElementsAre(0, 1, 2, -1));
    EXPECT_EQ(fabring_comm_members(self.world, members, 2, &error), FABRING_STATUS_INVALID_ARGUMENT);
    EXPECT_THAT(error.message, HasSubstr("room for the members of 2 ranks, but 'world' has 3"));
  });
}

// A broadcast of two ranks, from rank 1: the shortest of texts.
constexpr char plans_of_two[] = R"([
{"format":"fabring-plan","version":1,"collective":"broadcast","algorithm":"by hand","rank":0,"size":2,"root":1,"largest_message":1099511627776,"ranges":[[0,0,1,1]],"scratch":[],"steps":[{"kind":"recv","peer":1,"message":0,"to":["output",0],"after":[]}]},
{"format":"fabring-plan","version":1,"collective":"broadcast","algorithm":"by hand","rank":1,"size":2,"root":1,"largest_message":1099511627776,"ranges":[[0,0,1,1]],"scratch":[],"steps":[{"kind":"send","peer":0,"message":0,"from":["input",0],"after":[]},{"kind":"copy","to":["output",0],"from":["input",0],"after":[0]}]}
])";

TEST(Communicators, run_plans_of_a_text) {
  run_ranks(2, [](Rank self) {
    fabring_error error = FABRING_ERROR_INIT;
    fabring_comm* with = nullptr;
    EXPECT_OK(fabring_comm_with_plans(self.world, plans_of_two, sizeof plans_of_two - 1, "by hand", &with, &error));
    ASSERT_NE(with, nullptr);
    EXPECT_EQ(label_of(with), "by hand");
    std::int32_t word = self.rank == 1 ? 42 : 0;
    EXPECT_OK(fabring_broadcast(with, &word, 1, FABRING_TYPE_INT32, 1, &error));
    EXPECT_EQ(word, 42);
    fabring_operation operation = FABRING_OPERATION_INIT;
    operation.collective = FABRING_COLLECTIVE_BROADCAST;
    operation.in = operation.out = &word;
    operation.count = 1;
    operation.type = FABRING_TYPE_INT32;
    operation.root = 1;
    char text[200];
    EXPECT_OK(fabring_explain(with, &operation, text, sizeof text, nullptr, &error));
    EXPECT_THAT(text, HasSubstr("by hand"));
    EXPECT_OK(fabring_comm_free(with));
    // Both call it wrongly, and neither waits.
    EXPECT_EQ(fabring_comm_with_plans(self.world, "[1]", 3, nullptr, &with, &error), FABRING_STATUS_INVALID_ARGUMENT);
    EXPECT_EQ(with, nullptr);
    EXPECT_THAT(error.message, HasSubstr("the plans: "));
  });
}

TEST(Communicators, split_duplicate_and_live_on_their_own) {
  run_ranks(3, [](Rank self) {
    fabring_error error = FABRING_ERROR_INIT;
    fabring_comm *half = self.world, *node = nullptr, *twin = nullptr;
    EXPECT_OK(fabring_comm_split(self.world, self.rank == 1 ? -1 : 5, -self.rank, "half", &half, &error));
    EXPECT_EQ(half == nullptr, self.rank == 1) << "a negative colour has no communicator";
    EXPECT_OK(fabring_comm_split_by_node(self.world, nullptr, &node, &error));
    EXPECT_OK(fabring_comm_duplicate(self.world, "twin", &twin, &error));
    EXPECT_EQ(label_of(twin), "twin");
    std::int32_t size = 0, rank = -1;
    EXPECT_OK(fabring_comm_size(node, &size, &error));
    EXPECT_EQ(size, 3);
    if (half != nullptr) {
      EXPECT_OK(fabring_comm_rank(half, &rank, &error));
      EXPECT_EQ(rank, self.rank == 2 ? 0 : 1) << "by key";
      EXPECT_EQ(label_of(half), "half");
      EXPECT_OK(fabring_barrier(half, &error));
    }
    EXPECT_OK(fabring_barrier(twin, &error));
    for (fabring_comm* comm : {half, node, twin}) {
      EXPECT_OK(fabring_comm_free(comm));
    }
    EXPECT_OK(fabring_barrier(self.world, &error));
  });
}

TEST(Communicators, of_some_ranks_are_made_by_these_alone) {
  run_ranks(3, [](Rank self) {
    fabring_error error = FABRING_ERROR_INIT;
    fabring_comm *pair = nullptr, *again = nullptr;
    const std::int32_t ranks[] = {2, 0};
    if (self.rank != 1) {
      EXPECT_OK(fabring_comm_subgroup(self.world, ranks, 2, 7, "pair", &pair, &error));
      std::int32_t rank = -1, sum = self.rank;
      EXPECT_OK(fabring_comm_rank(pair, &rank, &error));
      EXPECT_EQ(rank, self.rank == 2 ? 0 : 1) << "in the order of the list";
      EXPECT_OK(fabring_allreduce(pair, &sum, &sum, 1, FABRING_TYPE_INT32, FABRING_OP_SUM, &error));
      EXPECT_EQ(sum, 2);
      std::int32_t members[2] = {-1, -1};
      EXPECT_OK(fabring_comm_members(pair, members, 2, &error));
      EXPECT_THAT(members, ElementsAre(2, 0)) << "as the job numbers them";
      EXPECT_EQ(fabring_broadcast(pair, &sum, 1, FABRING_TYPE_INT32, 5, &error), FABRING_STATUS_INVALID_ARGUMENT);
      EXPECT_EQ(error.rank, self.rank);
      EXPECT_THAT(error.message, HasSubstr(self.rank == 2 ? "on 'pair', rank 0 (rank 2 of the job): "
                                                          : "on 'pair', rank 1 (rank 0 of the job): "));
      EXPECT_OK(fabring_barrier(pair, &error));
      EXPECT_EQ(fabring_comm_subgroup(self.world, ranks, 2, 7, nullptr, &again, &error),
                FABRING_STATUS_INVALID_ARGUMENT);
      EXPECT_THAT(error.message, HasSubstr("the number 7 was given to an earlier one"));
      EXPECT_OK(fabring_comm_free(pair));
      EXPECT_EQ(fabring_comm_subgroup(self.world, ranks, 2, 7, nullptr, &again, &error),
                FABRING_STATUS_INVALID_ARGUMENT)
          << "also when it is gone";
    } else {
      EXPECT_EQ(fabring_comm_subgroup(self.world, ranks, 2, 7, nullptr, &pair, &error),
                FABRING_STATUS_INVALID_ARGUMENT);
      EXPECT_THAT(error.message, HasSubstr("only ranks that are in the list may call"));
    }
    const std::int32_t twice[] = {self.rank, self.rank}, strange[] = {self.rank, 3};
    EXPECT_EQ(fabring_comm_subgroup(self.world, twice, 2, 8, nullptr, &pair, &error), FABRING_STATUS_INVALID_ARGUMENT);
    EXPECT_THAT(error.message, HasSubstr("in the list twice"));
    EXPECT_EQ(fabring_comm_subgroup(self.world, strange, 2, 8, nullptr, &pair, &error),
              FABRING_STATUS_INVALID_ARGUMENT);
    EXPECT_THAT(error.message, HasSubstr("there is no rank 3"));
    EXPECT_EQ(fabring_comm_subgroup(self.world, &self.rank, 1, UINT32_C(1) << 31, nullptr, &pair, &error),
              FABRING_STATUS_INVALID_ARGUMENT);
    EXPECT_OK(fabring_barrier(self.world, &error));
  });
}

TEST(Communicators, that_were_aborted_are_shrunk_to_those_who_are_left) {
  run_ranks(3, [](Rank self) {
    fabring_error error = FABRING_ERROR_INIT;
    fabring_comm *all = nullptr, *left = nullptr;
    EXPECT_OK(fabring_comm_abort(self.world, "for a test", &error));
    EXPECT_OK(fabring_comm_shrink(self.world, nullptr, &all, &error));
    EXPECT_EQ(label_of(all), "world again");
    std::int32_t sum = self.rank, rank = -1;
    EXPECT_OK(fabring_allreduce(all, &sum, &sum, 1, FABRING_TYPE_INT32, FABRING_OP_SUM, &error));
    EXPECT_EQ(sum, 3) << "nobody was lost";
    fabring_comm *longest = nullptr, *again = nullptr;
    EXPECT_OK(fabring_comm_duplicate(all, std::string(200, 'x').c_str(), &longest, &error));
    if (self.rank != 1) {  // which leaves
      EXPECT_OK(fabring_comm_shrink(all, "the two", &left, &error));
      EXPECT_EQ(label_of(left), "the two");
      EXPECT_OK(fabring_comm_rank(left, &rank, &error));
      EXPECT_EQ(rank, self.rank / 2);
      EXPECT_OK(fabring_allreduce(left, &sum, &sum, 1, FABRING_TYPE_INT32, FABRING_OP_SUM, &error));
      EXPECT_EQ(sum, 6);
      EXPECT_OK(fabring_comm_free(left));
      EXPECT_OK(fabring_comm_shrink(longest, nullptr, &again, &error));
      char label[300];
      EXPECT_OK(fabring_comm_label(again, label, sizeof label, nullptr, &error));
      EXPECT_EQ(label, std::string(200, 'x') + "...") << "no name grows with every shrink";
      EXPECT_OK(fabring_comm_free(again));
    }
    EXPECT_OK(fabring_comm_free(longest));
    EXPECT_OK(fabring_comm_free(all));
  });
}

TEST(Communicators, that_are_aborted_fail_everywhere_and_say_why) {
  run_ranks(2, [](Rank self) {
    fabring_error error = FABRING_ERROR_INIT;
    fabring_comm* twin = nullptr;
    EXPECT_OK(fabring_comm_duplicate(self.world, nullptr, &twin, &error));
    EXPECT_OK(fabring_comm_health(twin, &error));
    EXPECT_OK(fabring_barrier(self.world, &error));
    if (self.rank == 0) {
      EXPECT_OK(fabring_comm_abort(twin, "enough", &error));
    }
    if (self.rank == 1) {
      EXPECT_EQ(fabring_barrier(twin, &error), FABRING_STATUS_ABORTED);
      EXPECT_THAT(error.message, HasSubstr("enough"));
      EXPECT_EQ(error.rank, 0) << "who aborted it";
      EXPECT_STRNE(error.host, "");
    }
    EXPECT_EQ(fabring_comm_health(twin, &error), FABRING_STATUS_ABORTED);
    EXPECT_EQ(error.rank, 0) << "also there";
    EXPECT_STRNE(error.host, "");
    EXPECT_OK(fabring_barrier(self.world, &error));
    EXPECT_OK(fabring_comm_free(twin));
  });
}

TEST(Communicators, that_lose_a_rank_say_which_and_during_what) {
  run_ranks(2,
            [](Rank self) {
              fabring_error error = FABRING_ERROR_INIT;
              std::int32_t values[5] = {};
              EXPECT_OK(fabring_barrier(self.world, &error));
              if (self.rank == 1) return;  // leaves
              EXPECT_EQ(fabring_allreduce(self.world, values, values, 5, FABRING_TYPE_INT32, FABRING_OP_SUM, &error),
                        FABRING_STATUS_PEER_LOST);
              EXPECT_EQ(error.code, FABRING_STATUS_PEER_LOST);
              EXPECT_EQ(error.rank, 1);
              EXPECT_STRNE(error.host, "");
              EXPECT_STREQ(error.collective, "allreduce");
              EXPECT_EQ(error.sequence, 2u);
              EXPECT_EQ(error.bytes, sizeof values);
              EXPECT_THAT(error.message, HasSubstr("rank 1"));
            },
            {{"FABRING_LEAVE_TIMEOUT", "100ms"}});
}

TEST(Communicators, that_a_rank_leaves_in_the_middle_of_an_operation_say_which) {
  std::promise<void> over;
  run_ranks(3,
            [&, is_over = over.get_future().share()](Rank self) {
              fabring_error error = FABRING_ERROR_INIT;
              if (self.rank == 1) {
                fabring_operation barrier = FABRING_OPERATION_INIT;
                barrier.collective = FABRING_COLLECTIVE_BARRIER;
                fabring_work* work = nullptr;
                EXPECT_OK(fabring_start(self.world, &barrier, &work, &error));
                (void)fabring_engine_leave(self.engine, &error);
                EXPECT_OK(fabring_work_free(work));
              } else if (self.rank == 2) {  // which never calls it
                is_over.wait();
              } else {
                EXPECT_EQ(fabring_barrier(self.world, &error), FABRING_STATUS_ABORTED);
                EXPECT_THAT(error.message, HasSubstr("has ended its engine"));
                EXPECT_EQ(error.rank, 1);
                EXPECT_STRNE(error.host, "");
                over.set_value();
              }
            },
            {{"FABRING_LEAVE_TIMEOUT", "100ms"}});
}

TEST(Engines, that_wait_for_others_to_leave_say_for_whom_if_it_is_one) {
  std::array<std::promise<void>, 3> has_left;
  run_ranks(3,
            [&](Rank self) {
              fabring_error error = FABRING_ERROR_INIT;
              const auto at = static_cast<std::size_t>(self.rank);
              if (self.rank > 0) has_left[at - 1].get_future().wait();
              if (self.rank == 2) {
                EXPECT_OK(fabring_engine_leave(self.engine, &error));
                return;
              }
              EXPECT_EQ(fabring_engine_leave(self.engine, &error), FABRING_STATUS_TIMEOUT);
              EXPECT_EQ(error.rank, self.rank == 1 ? 2 : -1) << error.message;
              EXPECT_EQ(error.host[0] != 0, self.rank == 1) << error.message;
              has_left[at].set_value();
            },
            {{"FABRING_LEAVE_TIMEOUT", "300ms"}});
}

TEST(Engines, count_traffic_and_report_choices) {
  run_ranks(2, [](Rank self) {
    fabring_error error = FABRING_ERROR_INIT;
    std::int32_t values[1000] = {};
    EXPECT_OK(fabring_allreduce(self.world, values, values, 1000, FABRING_TYPE_INT32, FABRING_OP_SUM, &error));
    fabring_traffic traffic = FABRING_TRAFFIC_INIT;
    EXPECT_OK(fabring_engine_traffic(self.engine, &traffic, &error));
    EXPECT_EQ(traffic.struct_size, sizeof traffic);
    EXPECT_GE(traffic.payload_bytes_sent, 4000u);
    EXPECT_GT(traffic.wire_bytes_sent, traffic.payload_bytes_sent);
    EXPECT_GT(traffic.messages_sent, 0u);
    char text[4096];
    EXPECT_OK(fabring_engine_report(self.engine, text, sizeof text, nullptr, &error));
    EXPECT_THAT(text, HasSubstr("tcp"));
    EXPECT_OK(fabring_engine_setting(self.engine, "FABRING_TRANSPORT", text, sizeof text, nullptr, &error));
    EXPECT_STREQ(text, "tcp");
    EXPECT_OK(fabring_barrier(self.world, &error));
    EXPECT_OK(fabring_engine_leave(self.engine, &error));
  });
}

using Engine = Alone;

TEST_F(Engine, that_is_destroyed_leaves_handles_that_answer_and_can_be_freed) {
  fabring_operation barrier = FABRING_OPERATION_INIT;
  barrier.collective = FABRING_COLLECTIVE_BARRIER;
  fabring_prepared* prepared = nullptr;
  fabring_work* work = nullptr;
  EXPECT_OK(fabring_prepare(world, &barrier, &prepared, &error));
  EXPECT_OK(fabring_start(world, &barrier, &work, &error));
  EXPECT_OK(fabring_work_wait(work, &error));
  EXPECT_OK(fabring_engine_destroy(engine));
  engine = nullptr;
  EXPECT_EQ(fabring_barrier(world, &error), FABRING_STATUS_ABORTED);
  EXPECT_EQ(fabring_prepared_run(prepared, &error), FABRING_STATUS_ABORTED);
  EXPECT_OK(fabring_work_status(work, &error));
  std::int32_t size = 0;
  EXPECT_OK(fabring_comm_size(world, &size, &error));
  EXPECT_EQ(size, 1);
  EXPECT_OK(fabring_prepared_free(prepared));
  EXPECT_OK(fabring_work_free(work));
}

}  // namespace
}  // namespace fabring::c_api::tests

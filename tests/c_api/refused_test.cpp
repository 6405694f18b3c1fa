// What C lets through and the binding refuses: the other ranks, who wait in that call, hear which rank it was and why.
#include <gmock/gmock.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "ranks.hpp"

namespace fabring::c_api::tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Case {
  const char* words;
  std::function<fabring_status_code(fabring_comm*, fabring_error*)> refused;                ///< on rank 1
  std::function<fabring_status_code(fabring_comm*, fabring_work**, fabring_error*)> waits;  ///< on rank 0
  bool words_here = true;                                                                   ///< also on rank 1
};

float values[4];  // of no interest

fabring_operation allreduce() {
  fabring_operation made = FABRING_OPERATION_INIT;
  made.collective = FABRING_COLLECTIVE_ALLREDUCE;
  made.in = made.out = values;
  made.count = 4;
  return made;
}
fabring_operation message(fabring_collective collective, std::int32_t other) {
  fabring_operation made = FABRING_OPERATION_INIT;
  made.collective = collective;
  made.in = made.out = values;
  made.count = 4;
  made.root = other;
  made.tag = 3;
  return made;
}
fabring_status_code start(fabring_comm* on, const fabring_operation& what, fabring_work** work, fabring_error* error) {
  return fabring_start(on, &what, work, error);
}
fabring_status_code start_allreduce(fabring_comm* on, fabring_work** work, fabring_error* error) {
  return start(on, allreduce(), work, error);
}
fabring_status_code start_recv(fabring_comm* on, fabring_work** work, fabring_error* error) {
  return start(on, message(FABRING_COLLECTIVE_RECV, 1), work, error);
}

/// Refuses it as a binding does; what that answers it has told its caller itself.
fabring_status_code refused_before(fabring_comm* on, const fabring_operation* operation, const char* why,
                                   fabring_error* error) {
  EXPECT_EQ(fabring_comm_refuse(on, operation, why, error), FABRING_STATUS_OK) << error->message;
  return FABRING_STATUS_INVALID_ARGUMENT;
}

/// Calls with an error structure that nobody initialised.
template <class Body>
fabring_status_code with_bad_error(Body&& body) {
  fabring_error bad;
  std::memset(&bad, 0, sizeof bad);
  return body(&bad);
}

/// Prepares an allreduce and calls `body` with it.
template <class Body>
fabring_status_code prepared(fabring_comm* on, fabring_error* error, Body&& body) {
  const fabring_operation good = allreduce();
  fabring_prepared* made = nullptr;
  EXPECT_EQ(fabring_prepare(on, &good, &made, error), FABRING_STATUS_OK) << error->message;
  const fabring_status_code code = body(made);
  EXPECT_EQ(fabring_prepared_free(made), FABRING_STATUS_OK);
  return code;
}

std::vector<Case> cases() {
  return {
      {"there is no data type 99",
       [](auto* on, auto* e) { return fabring_allreduce(on, values, values, 4, 99, FABRING_OP_SUM, e); },
       start_allreduce},
      {"there is no reduction -1",
       [](auto* on, auto* e) { return fabring_allreduce(on, values, values, 4, FABRING_TYPE_FLOAT32, -1, e); },
       start_allreduce},
      {"'tensors' is null",
       [](auto* on, auto* e) {
         return fabring_grouped_allreduce(on, nullptr, 2, FABRING_TYPE_FLOAT32, FABRING_OP_SUM, e);
       },
       start_allreduce},
      {"struct_size",
       [](auto* on, auto* e) {
         fabring_operation bad = allreduce();
         bad.struct_size = 3;
         return fabring_run(on, &bad, e);
       },
       start_allreduce},
      {"'operation' is null", [](auto* on, auto* e) { return fabring_run(on, nullptr, e); }, start_allreduce},
      {"'work' is null",
       [](auto* on, auto* e) {
         const fabring_operation good = allreduce();
         return fabring_start(on, &good, nullptr, e);
       },
       start_allreduce},
      {"'operations' is null", [](auto* on, auto* e) { return fabring_run_group(on, nullptr, 2, e); }, start_allreduce},
      {"there is no data type 77", [](auto* on, auto* e) { return fabring_send(on, values, 4, 77, 0, 3, e); },
       start_recv},
      {"operation 1 of the group",
       [](auto* on, auto* e) {
         fabring_operation group[2] = {message(FABRING_COLLECTIVE_SEND, 0), message(FABRING_COLLECTIVE_RECV, 0)};
         group[1].type = 55;
         return fabring_run_group(on, group, 2, e);
       },
       start_recv},
      {"'made' is null", [](auto* on, auto* e) { return fabring_comm_duplicate(on, nullptr, nullptr, e); },
       start_allreduce},
      {"'text' is null",
       [](auto* on, auto* e) {
         fabring_comm* made = nullptr;
         return fabring_comm_with_plans(on, nullptr, 2, nullptr, &made, e);
       },
       start_allreduce},
      {"'work' is null",
       [](auto* on, auto* e) {
         return prepared(on, e, [&](auto* made) { return fabring_prepared_start(made, nullptr, e); });
       },
       start_allreduce},
      {"'work' is null",
       [](auto* on, auto* e) {
         return prepared(on, e, [&](auto* made) { return fabring_prepared_start_on(made, nullptr, nullptr, e); });
       },
       start_allreduce},
      {"a tensor of no type", [](auto* on, auto* e) { return refused_before(on, nullptr, "a tensor of no type", e); },
       start_allreduce, false},
      {"gave no reason",
       [](auto* on, auto* e) {
         const fabring_operation send = message(FABRING_COLLECTIVE_SEND, 0);
         return refused_before(on, &send, nullptr, e);
       },
       start_recv, false},
      {"the fabring_error was not initialised",
       [](auto* on, auto*) {
         const fabring_operation good = allreduce();
         return with_bad_error([&](auto* bad) { return fabring_run(on, &good, bad); });
       },
       start_allreduce, false},
      {"the fabring_error was not initialised",
       [](auto* on, auto*) {
         const fabring_operation good = allreduce();
         fabring_work* work = nullptr;
         return with_bad_error([&](auto* bad) { return fabring_start(on, &good, &work, bad); });
       },
       start_allreduce, false},
      {"the fabring_error was not initialised",
       [](auto* on, auto*) {
         const fabring_operation good = allreduce();
         return with_bad_error([&](auto* bad) { return fabring_run_group(on, &good, 1, bad); });
       },
       start_allreduce, false},
      {"the fabring_error was not initialised",
       [](auto* on, auto*) {
         const fabring_operation good = allreduce();
         fabring_work* work = nullptr;
         return with_bad_error([&](auto* bad) { return fabring_start_group(on, &good, 1, &work, bad); });
       },
       start_allreduce, false},
      {"the fabring_error was not initialised",
       [](auto* on, auto*) {
         const fabring_operation good = allreduce();
         fabring_prepared* made = nullptr;
         return with_bad_error([&](auto* bad) { return fabring_prepare(on, &good, &made, bad); });
       },
       start_allreduce, false},
      {"the fabring_error was not initialised",
       [](auto* on, auto* e) {
         return prepared(on, e, [&](auto* made) {
           return with_bad_error([&](auto* bad) { return fabring_prepared_run(made, bad); });
         });
       },
       start_allreduce, false},
      {"the fabring_error was not initialised",
       [](auto* on, auto* e) {
         return prepared(on, e, [&](auto* made) {
           fabring_work* work = nullptr;
           return with_bad_error([&](auto* bad) { return fabring_prepared_start(made, &work, bad); });
         });
       },
       start_allreduce, false},
      {"the fabring_error was not initialised",
       [](auto* on, auto* e) {
         return prepared(on, e, [&](auto* made) {
           fabring_work* work = nullptr;
           return with_bad_error([&](auto* bad) { return fabring_prepared_start_on(made, nullptr, &work, bad); });
         });
       },
       start_allreduce, false},
      {"the fabring_error was not initialised",
       [](auto* on, auto*) {
         return with_bad_error([&](auto* bad) {
           return fabring_allreduce(on, values, values, 4, FABRING_TYPE_FLOAT32, FABRING_OP_SUM, bad);
         });
       },
       start_allreduce, false},
      {"the fabring_error was not initialised",
       [](auto* on, auto*) {
         const fabring_tensor one = {values, values, 4};
         return with_bad_error([&](auto* bad) {
           return fabring_grouped_allreduce(on, &one, 1, FABRING_TYPE_FLOAT32, FABRING_OP_SUM, bad);
         });
       },
       start_allreduce, false},
      {"the fabring_error was not initialised",
       [](auto* on, auto*) {
         return with_bad_error([&](auto* bad) { return fabring_send(on, values, 4, FABRING_TYPE_FLOAT32, 0, 3, bad); });
       },
       start_recv, false},
      {"the fabring_error was not initialised",
       [](auto* on, auto*) {
         fabring_comm* made = nullptr;
         return with_bad_error([&](auto* bad) { return fabring_comm_duplicate(on, nullptr, &made, bad); });
       },
       start_allreduce, false},
  };
}

void expect_named(const fabring_error& error, fabring_status_code code, const char* words) {
  EXPECT_EQ(code, FABRING_STATUS_MISMATCH) << error.message;
  EXPECT_EQ(error.rank, 1);
  EXPECT_THAT(error.message, AllOf(HasSubstr("rank 1"), HasSubstr("refused"), HasSubstr(words)));
}

// Each on a communicator of its own, all at once.
TEST(Refused, calls_are_told_to_who_waits_in_them) {
  std::atomic<bool> all_heard{false};
  run_ranks(2,
            [&](Rank self) {
              fabring_error error = FABRING_ERROR_INIT;
              const std::vector<Case> all = cases();
              std::vector<fabring_comm*> comms(all.size());
              for (fabring_comm*& comm : comms) EXPECT_OK(fabring_comm_duplicate(self.world, nullptr, &comm, &error));
              fabring_comm* group[2] = {nullptr, nullptr};
              constexpr std::int32_t both[] = {0, 1};
              constexpr const char* of_groups[] = {"'ranks' is null", "no list of ranks"};
              if (self.rank == 1) {
                for (std::size_t i = 0; i < all.size(); ++i) {
                  EXPECT_EQ(all[i].refused(comms[i], &error), FABRING_STATUS_INVALID_ARGUMENT);
                  if (all[i].words_here) {
                    EXPECT_THAT(error.message, HasSubstr(all[i].words));
                  }
                }
                EXPECT_EQ(fabring_comm_subgroup(self.world, nullptr, 2, 0, nullptr, &group[0], &error),
                          FABRING_STATUS_INVALID_ARGUMENT);
                EXPECT_OK(fabring_comm_refuse_subgroup(self.world, 1, of_groups[1], &error));
                all_heard.wait(false);  // one that leaves is told of in other words
              } else {
                std::vector<fabring_work*> works(all.size());
                for (std::size_t i = 0; i < all.size(); ++i) EXPECT_OK(all[i].waits(comms[i], &works[i], &error));
                fabring_work* of_group[2] = {nullptr, nullptr};
                for (std::uint32_t number : {0, 1}) {
                  EXPECT_OK(fabring_comm_subgroup(self.world, both, 2, number, nullptr, &group[number], &error));
                  EXPECT_OK(start_allreduce(group[number], &of_group[number], &error));
                }
                for (std::size_t i = 0; i < all.size(); ++i) {
                  SCOPED_TRACE(all[i].words);
                  const fabring_status_code code = fabring_work_wait(works[i], &error);
                  expect_named(error, code, all[i].words);
                  EXPECT_EQ(fabring_work_free(works[i]), FABRING_STATUS_OK);
                }
                for (const int number : {0, 1}) {
                  const fabring_status_code code = fabring_work_wait(of_group[number], &error);
                  expect_named(error, code, of_groups[number]);
                  EXPECT_EQ(fabring_work_free(of_group[number]), FABRING_STATUS_OK);
                  EXPECT_EQ(fabring_comm_free(group[number]), FABRING_STATUS_OK);
                }
                all_heard = true;
                all_heard.notify_all();
              }
              for (fabring_comm* comm : comms) EXPECT_EQ(fabring_comm_free(comm), FABRING_STATUS_OK);
            },
            {{"FABRING_TIMEOUT", "20s"}});
}

// A call that is made after all takes the refusal back.
TEST(Refused, calls_that_are_made_after_all_end_well) {
  run_ranks(2, [](Rank self) {
    fabring_error error = FABRING_ERROR_INIT;
    float one = 1, sum = 0;
    if (self.rank == 1) {
      EXPECT_EQ(fabring_allreduce(self.world, &one, &sum, 1, 99, FABRING_OP_SUM, &error),
                FABRING_STATUS_INVALID_ARGUMENT);
    }
    EXPECT_OK(fabring_allreduce(self.world, &one, &sum, 1, FABRING_TYPE_FLOAT32, FABRING_OP_SUM, &error));
    EXPECT_EQ(sum, 2.F);
  });
}

}  // namespace
}  // namespace fabring::c_api::tests

// A child of fork(): what its parent made is refused in words, may be freed, and stays the parent's.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "ranks.hpp"

namespace fabring::c_api::tests {
namespace {

constexpr unsigned most_seconds = 10;  // of a child; leaving would take it longer

struct Held {
  Rank rank;
  fabring_work* under_way = nullptr;
  fabring_prepared* prepared = nullptr;
  void* memory = nullptr;
  float value = 1, got = 0;
};

/// Says what was not refused as it should be.
class Refused {
 public:
  explicit Refused(const Held& held) : words_("child of fork() of rank " + std::to_string(held.rank.rank) + "'s") {}
  void operator()(const char* call, fabring_status_code code) {
    if (code == FABRING_STATUS_INVALID_ARGUMENT && std::strstr(error.message, words_.c_str()) != nullptr) return;
    fine_ = false;
    std::fprintf(stderr, "in a child: %s: %d %s\n", call, static_cast<int>(code), error.message);
  }
  bool fine() const { return fine_; }
  fabring_error error = FABRING_ERROR_INIT;

 private:
  const std::string words_;
  bool fine_ = true;
};

bool all_calls_are_refused(Held& held) {
  Refused refused(held);
  fabring_error* const error = &refused.error;
  fabring_comm* const world = held.rank.world;
  fabring_operation barrier = FABRING_OPERATION_INIT;
  barrier.collective = FABRING_COLLECTIVE_BARRIER;
  fabring_comm* made = nullptr;
  fabring_work* work = nullptr;
  int flag = 0;
  void* memory = nullptr;
  fabring_received received = FABRING_RECEIVED_INIT;
  fabring_traffic traffic = FABRING_TRAFFIC_INIT;
  refused("barrier", fabring_barrier(world, error));
  refused("start", fabring_start(world, &barrier, &work, error));
  refused("run_group", fabring_run_group(world, &barrier, 1, error));
  refused("prepared_run", fabring_prepared_run(held.prepared, error));
  refused("prepared_start", fabring_prepared_start(held.prepared, &work, error));
  refused("wait", fabring_work_wait(held.under_way, error));
  refused("wait_for", fabring_work_wait_for(held.under_way, 0, error));
  refused("done", fabring_work_done(held.under_way, &flag, error));
  refused("status", fabring_work_status(held.under_way, error));
  refused("received", fabring_work_received(held.under_way, &received, error));
  refused("notify", fabring_work_notify(
                        held.under_way, [](void*) {}, nullptr, error));
  refused("split", fabring_comm_split(world, 0, 0, nullptr, &made, error));
  refused("shrink", fabring_comm_shrink(world, nullptr, &made, error));
  refused("health", fabring_comm_health(world, error));
  refused("abort", fabring_comm_abort(world, "by a child", error));
  refused("refuse", fabring_comm_refuse(world, nullptr, "by a child", error));
  refused("refuse_subgroup", fabring_comm_refuse_subgroup(world, 1, "by a child", error));
  refused("traffic", fabring_engine_traffic(held.rank.engine, &traffic, error));
  refused("mem_alloc", fabring_mem_alloc(held.rank.engine, 1, &memory, error));
  return refused.fine();
}

bool ends_without_harm(Held& held) {
  return fabring_mem_free(held.memory) == FABRING_STATUS_OK && fabring_work_free(held.under_way) == FABRING_STATUS_OK &&
         fabring_prepared_free(held.prepared) == FABRING_STATUS_OK &&
         fabring_comm_free(held.rank.world) == FABRING_STATUS_OK &&
         fabring_engine_leave(held.rank.engine, nullptr) == FABRING_STATUS_OK &&
         fabring_engine_destroy(held.rank.engine) == FABRING_STATUS_OK;
}

/// 0: all was as it should be there.
int status_of_child(Held& held) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(most_seconds);
    ::_exit(!all_calls_are_refused(held) ? 1 : ends_without_harm(held) ? 0 : 2);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

TEST(Forked, AChildIsRefusedInWordsFreesWhatItLikesAndItsParentGoesOn) {
  run_ranks(2, [](Rank rank) {
    fabring_error error = FABRING_ERROR_INIT;
    Held held{rank};
    fabring_operation operation = FABRING_OPERATION_INIT;
    operation.collective = FABRING_COLLECTIVE_ALLREDUCE;
    operation.type = FABRING_TYPE_FLOAT32;
    operation.in = &held.value;
    operation.out = &held.got;
    operation.count = 1;
    EXPECT_OK(fabring_prepare(rank.world, &operation, &held.prepared, &error));
    EXPECT_OK(fabring_mem_alloc(rank.engine, 1 << 20, &held.memory, &error));
    std::memset(held.memory, 7, 1 << 20);
    operation.collective = FABRING_COLLECTIVE_RECV;
    operation.root = 1 - rank.rank;
    EXPECT_OK(fabring_start(rank.world, &operation, &held.under_way, &error));
    EXPECT_OK(fabring_barrier(rank.world, &error));
    EXPECT_EQ(status_of_child(held), 0);
    EXPECT_OK(fabring_send(rank.world, &held.value, 1, FABRING_TYPE_FLOAT32, 1 - rank.rank, 0, &error));
    EXPECT_OK(fabring_work_wait(held.under_way, &error));
    EXPECT_EQ(held.got, 1);
    EXPECT_OK(fabring_prepared_run(held.prepared, &error));
    EXPECT_EQ(held.got, 2);
    EXPECT_EQ(static_cast<unsigned char*>(held.memory)[1000], 7);
    EXPECT_EQ(fabring_work_free(held.under_way), FABRING_STATUS_OK);
    EXPECT_EQ(fabring_prepared_free(held.prepared), FABRING_STATUS_OK);
    EXPECT_EQ(fabring_mem_free(held.memory), FABRING_STATUS_OK);
  });
}

}  // namespace
}  // namespace fabring::c_api::tests

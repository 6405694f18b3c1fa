// Callers of other versions, and callers who forgot to initialise.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "alone.hpp"

namespace fabring::c_api::tests {
namespace {

using testing::HasSubstr;

class Structs : public Alone {
 protected:
  void SetUp() override {
    Alone::SetUp();
    operation.in = in;
    operation.out = out;
    operation.count = 2;
    operation.type = FABRING_TYPE_INT32;
  }
  std::int32_t in[2] = {3, 4};
  std::int32_t out[2] = {0, 0};
  fabring_operation operation = FABRING_OPERATION_INIT;
};

TEST_F(Structs, of_an_older_caller_get_defaults_for_what_it_does_not_know) {
  operation.struct_size = offsetof(fabring_operation, counts);
  // What lies behind it is the caller's other memory.
  std::memset(reinterpret_cast<char*>(&operation) + operation.struct_size, 0xAB,
              sizeof operation - operation.struct_size);
  EXPECT_EQ(fabring_run(world, &operation, &error), FABRING_STATUS_OK) << error.message;
  EXPECT_EQ(out[1], 4);
}

TEST_F(Structs, of_an_older_caller_may_end_between_any_two_newer_fields) {
  operation.op = FABRING_OP_PREMUL_SUM;
  operation.whole_factor = 5;
  operation.struct_size = offsetof(fabring_operation, function);
  EXPECT_EQ(fabring_run(world, &operation, &error), FABRING_STATUS_OK) << error.message;
  EXPECT_EQ(out[1], 20);
  operation.struct_size = offsetof(fabring_operation, whole_factor);
  EXPECT_EQ(fabring_run(world, &operation, &error), FABRING_STATUS_OK) << error.message;
  EXPECT_EQ(out[1], 4) << "the factor's default is 1";
}

TEST_F(Structs, of_a_newer_caller_work_unless_it_asks_for_something_new) {
  struct {
    fabring_operation known;
    std::uint64_t newer[2];
  } larger = {operation, {0, 0}};
  larger.known.struct_size = sizeof larger;
  EXPECT_EQ(fabring_run(world, &larger.known, &error), FABRING_STATUS_OK) << error.message;
  EXPECT_EQ(out[0], 3);
  larger.newer[1] = 1;
  EXPECT_EQ(fabring_run(world, &larger.known, &error), FABRING_STATUS_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("does not know"));
}

TEST_F(Structs, without_a_size_name_the_initialiser) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{8}, sizeof operation - 1, std::size_t{1} << 40}) {
    operation.struct_size = size;
    EXPECT_EQ(fabring_run(world, &operation, &error), FABRING_STATUS_INVALID_ARGUMENT) << size;
    EXPECT_THAT(error.message, HasSubstr("FABRING_OPERATION_INIT")) << size;
  }
  fabring_traffic traffic{};
  EXPECT_EQ(fabring_engine_traffic(engine, &traffic, &error), FABRING_STATUS_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("FABRING_TRAFFIC_INIT"));
}

TEST_F(Structs, for_errors_that_are_not_initialised_refuse_the_call_and_stay_untouched) {
  fabring_error bad;
  std::memset(&bad, 0xAB, sizeof bad);
  const fabring_error kept = bad;
  EXPECT_EQ(fabring_run(world, &operation, &bad), FABRING_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(std::memcmp(&bad, &kept, sizeof bad), 0);
  EXPECT_EQ(out[0], 0) << "nothing was done";
}

TEST_F(Structs, for_errors_of_a_newer_caller_are_filled_as_far_as_known) {
  struct {
    fabring_error known;
    char newer[16];
  } larger = {FABRING_ERROR_INIT, "newer"};
  larger.known.struct_size = sizeof larger;
  EXPECT_EQ(fabring_run(nullptr, &operation, &larger.known), FABRING_STATUS_INVALID_ARGUMENT);
  EXPECT_STREQ(larger.known.message, "the argument 'comm' is null");
  EXPECT_STREQ(larger.newer, "newer");
  EXPECT_EQ(larger.known.struct_size, sizeof larger);
}

// What a program has that was compiled with the first release, whatever the structures have grown to since: these sizes
// never change. Behind it lies other memory of its.
template <class Struct, std::size_t first_size>
struct Oldest {
  static_assert(sizeof(Struct) >= first_size);
  static constexpr std::size_t behind = 64;
  Oldest() {
    std::memset(bytes, 0xAB, sizeof bytes);
    std::memcpy(bytes, &first_size_, sizeof first_size_);
  }
  Struct* get() { return reinterpret_cast<Struct*>(bytes); }
  bool nothing_written_behind() const {
    return std::all_of(bytes + first_size, bytes + sizeof bytes, [](unsigned char byte) { return byte == 0xAB; });
  }
  alignas(Struct) unsigned char bytes[first_size + behind];
  const std::size_t first_size_ = first_size;
};

TEST_F(Structs, of_the_first_release_are_filled_and_nothing_behind_them) {
  Oldest<fabring_error, 1344> old_error;
  EXPECT_EQ(fabring_run(nullptr, &operation, old_error.get()), FABRING_STATUS_INVALID_ARGUMENT);
  EXPECT_STREQ(old_error.get()->message, "the argument 'comm' is null");
  EXPECT_TRUE(old_error.nothing_written_behind());

  Oldest<fabring_traffic, 48> traffic;
  EXPECT_EQ(fabring_engine_traffic(engine, traffic.get(), &error), FABRING_STATUS_OK) << error.message;
  EXPECT_EQ(traffic.get()->messages_sent, 0u);
  EXPECT_TRUE(traffic.nothing_written_behind());

  Oldest<fabring_received, 24> received;
  fabring_work* work = nullptr;
  ASSERT_EQ(fabring_start(world, &operation, &work, &error), FABRING_STATUS_OK) << error.message;
  ASSERT_EQ(fabring_work_wait(work, &error), FABRING_STATUS_OK) << error.message;
  EXPECT_EQ(fabring_work_received(work, received.get(), &error), FABRING_STATUS_OK) << error.message;
  EXPECT_EQ(received.get()->count, 0u);
  EXPECT_TRUE(received.nothing_written_behind());
  EXPECT_EQ(fabring_work_free(work), FABRING_STATUS_OK);

  Oldest<fabring_store, 32> store;
  store.get()->context = nullptr;
  store.get()->put = [](void*, const char*, const void*, std::size_t) { return std::int32_t{FABRING_STATUS_OK}; };
  store.get()->get = [](void*, const char*, std::uint64_t, void*, std::size_t, std::size_t*) {
    return std::int32_t{FABRING_STATUS_UNAVAILABLE};
  };
  EXPECT_EQ(fabring_store_decline(store.get(), 1, FABRING_STATUS_INVALID_ARGUMENT, "", &error), FABRING_STATUS_OK)
      << error.message;
}

TEST_F(Structs, for_errors_hold_texts_that_are_cut_and_are_cleared_by_success) {
  const std::string reason(5000, 'r');
  ASSERT_EQ(fabring_comm_abort(world, reason.c_str(), &error), FABRING_STATUS_OK);
  EXPECT_EQ(fabring_comm_health(world, &error), FABRING_STATUS_ABORTED);
  EXPECT_EQ(error.code, FABRING_STATUS_ABORTED);
  EXPECT_EQ(std::strlen(error.message), sizeof error.message - 1);
  std::int32_t rank = -1;
  EXPECT_EQ(fabring_comm_rank(world, &rank, &error), FABRING_STATUS_OK);
  EXPECT_EQ(error.code, FABRING_STATUS_OK);
  EXPECT_STREQ(error.message, "");
}

TEST_F(Structs, in_an_array_are_as_far_apart_as_the_first_one_says) {
  struct Newer {
    fabring_operation known;
    std::uint64_t newer;
  } group[2] = {{operation, 0}, {operation, 0}};
  std::int32_t second = 0;
  group[0].known.struct_size = group[1].known.struct_size = sizeof(Newer);
  group[1].known.count = 1;
  group[1].known.out = &second;
  EXPECT_EQ(fabring_run_group(world, &group[0].known, 2, &error), FABRING_STATUS_OK) << error.message;
  EXPECT_EQ(out[1], 4);
  EXPECT_EQ(second, 3);
  group[1].known.struct_size = sizeof(fabring_operation);
  EXPECT_EQ(fabring_run_group(world, &group[0].known, 2, &error), FABRING_STATUS_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("operation 1 of the group"));
}

}  // namespace
}  // namespace fabring::c_api::tests

// Operations of a group that use each other's buffers. What is written here by one and read or written by another has
// no order unless both are collectives, so that it would be anything.

#include <gmock/gmock.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/thread_world.hpp"

namespace fabring::fixture {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t count = 30'000;
constexpr auto type = DataType::float32;

/// What a rank of three gives its group, of memory of its own. The neighbours do the same.
struct Buffers {
  Rank left, right;
  std::vector<float> a = std::vector<float>(6 * count, 1), b = std::vector<float>(6 * count, 2);

  Operation sends(const float* from, std::size_t length = count) const {
    return Operation::send(from, length, type, right, 1);
  }
  Operation receives(float* into, std::size_t length = count) const {
    return Operation::recv(into, length, type, left, 1);
  }
  Operation sums(const float* in, float* out) const {
    return Operation::allreduce(in, out, count, type, ReduceOp::sum);
  }
};
using Group = std::vector<Operation>;

struct Case {
  const char* what;
  Group (*group)(Buffers&);
  const char* two;  // of which the error tells; null: it is right
};

const std::vector<std::size_t> thirds(3, count), apart{0, 2 * count, 4 * count};

const Case cases[] = {
    {"a ring in place",
     [](Buffers& of) {
       return Group{of.receives(of.a.data()), of.sends(of.a.data())};
     },
     "operations 0 and 1"},
    {"two receives of which one begins in the other",
     [](Buffers& of) {
       return Group{of.sends(of.b.data()), of.receives(of.a.data()), of.sends(of.b.data()),
                    of.receives(of.a.data() + count - 1)};
     },
     "operations 1 and 3"},
    {"a receive around another",
     [](Buffers& of) {
       return Group{of.receives(of.a.data() + 1, 2), of.sends(of.b.data(), 2), of.sends(of.b.data(), 1),
                    of.receives(of.a.data())};
     },
     "operations 0 and 3"},
    {"a receive into what a collective reads",
     [](Buffers& of) {
       return Group{of.sums(of.a.data(), of.b.data()), of.sends(of.b.data() + count), of.receives(of.a.data() + 7)};
     },
     "operations 0 and 2"},
    {"a send of what a collective writes",
     [](Buffers& of) {
       return Group{of.sends(of.b.data() + 3), of.receives(of.b.data() + 2 * count), of.sums(of.a.data(), of.b.data())};
     },
     "operations 0 and 2"},
    {"a send of one block of those that are gathered",
     [](Buffers& of) {
       return Group{Operation::all_gather_v(of.a.data(), of.b.data(), {thirds, apart}, type),
                    of.sends(of.b.data() + 2 * count, 1), of.receives(of.a.data() + count, 1)};
     },
     "operations 0 and 1"},
    {"sends of the same, side by side with receives that touch",
     [](Buffers& of) {
       return Group{of.sends(of.a.data()), of.receives(of.b.data()), of.sends(of.a.data() + 1),
                    of.receives(of.b.data() + count), of.sums(of.a.data(), of.b.data() + 2 * count)};
     },
     nullptr},
    {"collectives one after the other",
     [](Buffers& of) {
       return Group{of.sums(of.a.data(), of.b.data()), of.sums(of.b.data(), of.a.data()), of.sends(of.a.data() + count),
                    of.receives(of.b.data() + count)};
     },
     nullptr},
    {"a message between blocks",
     [](Buffers& of) {
       return Group{Operation::all_gather_v(of.a.data(), of.b.data(), {thirds, apart}, type),
                    of.sends(of.b.data() + count), of.receives(of.b.data() + 3 * count)};
     },
     nullptr},
    {"messages without elements",
     [](Buffers& of) {
       return Group{of.receives(of.a.data(), 0), of.sends(of.a.data(), 0), of.sums(of.a.data(), of.a.data())};
     },
     nullptr},
};

void expect_as_told(const Case& one, const Status& status) {
  if (one.two == nullptr) {
    EXPECT_TRUE(status.ok()) << one.what << ": " << status.to_string();
    return;
  }
  EXPECT_EQ(status.code(), ErrorCode::invalid_argument) << one.what << ": " << status.to_string();
  EXPECT_THAT(status.message(), HasSubstr(one.two)) << one.what;
}

TEST(GroupOverlap, is_refused_before_anything_of_the_group_is_begun) {
  ThreadWorld world(3);
  world.run([](Rank rank, Communicator all) {
    for (const Case& one : cases) {
      Buffers of{(rank + 2) % 3, (rank + 1) % 3};
      expect_as_told(one, all.run_group(one.group(of)));
      EXPECT_TRUE(one.two == nullptr || of.a == std::vector<float>(6 * count, 1)) << one.what;
      std::vector<Work> works = all.start_group(one.group(of));
      for (Work& work : works) expect_as_told(one, work.wait());
    }
    float value = 1;
    EXPECT_TRUE(all.allreduce(&value, &value, 1, type, ReduceOp::sum).ok());
    EXPECT_EQ(value, 3) << "it is as usable as before";
  });
}

TEST(GroupOverlap, names_both_and_the_rank) {
  ThreadWorld world(3);
  Buffers of{0, 2};
  const Status status = world.world(1).run_group(Group{of.receives(of.a.data()), of.sends(of.a.data() + 5)});
  EXPECT_EQ(status.context().rank, 1);
  EXPECT_THAT(status.message(), HasSubstr("a group on 'world', rank 1"));
  EXPECT_THAT(status.message(),
              HasSubstr("recv(30000 x float32, from 0, tag 1) and send(30000 x float32, to 2, tag 1)"));
}

// Rank 0 waits for what rank 1 would have sent.
TEST(GroupOverlap, of_one_rank_is_told_to_who_waits_for_it) {
  ThreadWorld world(2);
  std::vector<float> value(count), other(count);
  Work waits = world.world(0).start(Operation::recv(other.data(), count, type, 1, 1));
  const Status status = world.world(1).run_group(
      Group{Operation::recv(value.data(), count, type, 0, 1), Operation::send(value.data(), count, type, 0, 1)});
  EXPECT_EQ(status.code(), ErrorCode::invalid_argument) << status.to_string();
  const Status told = waits.wait();
  EXPECT_EQ(told.code(), ErrorCode::mismatch) << told.to_string();
  EXPECT_THAT(told.message(), HasSubstr("the buffers of operations 0 and 1 overlap"));
}

}  // namespace
}  // namespace fabring::fixture

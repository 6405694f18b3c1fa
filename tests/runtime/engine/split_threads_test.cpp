// A split that ends in the middle on one rank, over real threads.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/algorithms.hpp"
#include "collectives/plan_json.hpp"
#include "tests/support/thread_world.hpp"
#include "tests/support/wrapping_transport.hpp"
#include "transports/forwarding_endpoint.hpp"
#include "transports/inproc/inproc_transport.hpp"

namespace fabring::fixture {
namespace {

/// From when it is closed rank 1 hears nothing: it closes with the first message that rank 1 sends of the second
/// agreement of a split, before which the others send nothing of it.
struct Ear {
  static constexpr int sent_before = 2;  // in the first agreement, to the two others
  std::atomic<bool> counts{false}, closed{false};
};

class Between final : public ForwardingEndpoint {
 public:
  Between(std::unique_ptr<Endpoint> inner, Rank self, Ear& ear)
      : ForwardingEndpoint(std::move(inner)), self_(self), ear_(ear) {}
  Post post_send(Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t context) override {
    if (!ear_.counts.load()) return inner().post_send(peer, slot, from, context);
    if (sent_ == Ear::sent_before) {
      if (self_ == 1) ear_.closed.store(true);
      if (!ear_.closed.load()) return Post::again;
    }
    const Post post = inner().post_send(peer, slot, from, context);
    if (post == Post::accepted && sent_ < Ear::sent_before) ++sent_;
    return post;
  }
  std::size_t poll(std::span<Completion> out) override {
    return self_ == 1 && ear_.closed.load() ? 0 : inner().poll(out);
  }

 private:
  const Rank self_;
  Ear& ear_;
  int sent_ = 0;
};

struct TransportWithEar final : WrappingTransport {
  explicit TransportWithEar(int ranks) : WrappingTransport(make_inproc_transport(make_inproc_fabric(ranks))) {}
  Ear ear;

 private:
  std::unique_ptr<Endpoint> wrap(std::unique_ptr<Endpoint> endpoint, Rank self) override {
    return std::make_unique<Between>(std::move(endpoint), self, ear);
  }
};

// The others have what they need of rank 1, and make the communicator. They would wait in it for ever.
TEST(Split, that_one_rank_did_not_finish_ends_on_the_others_and_says_who_and_why) {
  TransportWithEar transport(3);
  Config config;
  config.algorithm = "direct_one_shot";
  ThreadWorld world(3, config, nullptr, transport, {});
  const auto split = [&](Rank rank) {
    return std::async(std::launch::async, [&world, rank] { return world.world(rank).duplicate("half"); });
  };
  transport.ear.counts.store(true);
  auto first = split(0), odd = split(1), last = split(2);
  std::vector<Communicator> made;
  for (auto* each : {&first, &last}) {
    auto half = each->get();
    ASSERT_TRUE(half) << half.error().to_string();
    made.push_back(std::move(*half));
  }
  std::array<float, 2> values{1, 1};
  std::vector<Work> waits;
  for (std::size_t i = 0; i < 2; ++i)
    waits.push_back(made[i].start(Operation::allreduce(&values[i], &values[i], 1, DataType::float32, ReduceOp::sum)));
  world.world(1).abort("the test said so");
  for (Work& each : waits) {
    const Status status = each.wait();
    EXPECT_EQ(status.code(), ErrorCode::aborted) << status.to_string();
    for (const char* words : {"rank 1", "has not made communicator 'half'", "the test said so"})
      EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
  }
  const auto not_made = odd.get();
  ASSERT_FALSE(not_made);
  EXPECT_EQ(not_made.error().code(), ErrorCode::aborted);
}

// What a split agrees on by looks like this call of the program's, which got what the split's ranks had put there.
TEST(Split, is_not_met_by_a_call_that_looks_like_a_part_of_it) {
  ThreadWorld world(3);
  world.run([](Rank rank, Communicator all) {
    std::vector<std::int64_t> values(9, 0);
    Status status;
    if (rank == 1) {
      status = all.allreduce(values.data(), values.data(), 9, DataType::int64, ReduceOp::sum);
    } else {
      const auto half = all.split(0, 0);
      ASSERT_FALSE(half);
      status = half.error();
    }
    EXPECT_EQ(status.code(), ErrorCode::mismatch) << status.to_string();
    EXPECT_NE(status.message().find(") within split"), std::string::npos) << status.message();
  });
}

const std::string& plans_of_three() {
  static const std::string text = [] {
    std::vector<Plan> plans;
    for (Rank rank = 0; rank < 3; ++rank) plans.push_back(*make_plan({Algorithm::ring, rank, std::vector<int>(3)}));
    return plans_to_json(plans);
  }();
  return text;
}

struct Making {
  const char* name;
  Result<Communicator> (*make)(Communicator& of);
};

// One colour, one node: each of them would make the same members.
constexpr Making makings[] = {{"split", [](Communicator& of) { return of.split(0, 0); }},
                              {"split_by_node", [](Communicator& of) { return of.split_by_node(); }},
                              {"duplicate", [](Communicator& of) { return of.duplicate(); }},
                              {"with_plans", [](Communicator& of) { return of.with_plans(plans_of_three()); }}};

TEST(Split, is_not_met_by_another_call_that_makes_communicators) {
  const auto says = [](const std::string& text, const std::string& name) {
    const std::string step = ") within " + name;
    return text.find(step + ",") != std::string::npos || text.find(step + ".") != std::string::npos;
  };
  for (const Making& odd : makings)
    for (const Making& others : makings) {
      if (&odd == &others) continue;
      ThreadWorld world(3);
      world.run([&](Rank rank, Communicator all) {
        const auto made = (rank == 0 ? odd : others).make(all);
        ASSERT_FALSE(made) << odd.name << " met " << others.name << " and made one of " << made->size();
        const Status& status = made.error();
        EXPECT_EQ(status.code(), ErrorCode::mismatch) << status.to_string();
        EXPECT_TRUE(says(status.message(), odd.name) && says(status.message(), others.name)) << status.message();
      });
    }
}

// Its steps are none of the program's business, but count.
TEST(Split, and_the_like_fail_by_the_name_of_what_the_program_called) {
  for (const Making& each : makings) {
    ThreadWorld world(3);
    world.run([&](Rank, Communicator all) { EXPECT_TRUE(all.duplicate()); });
    const auto make = [&](Rank rank) {
      return std::async(std::launch::async, [&world, &each, rank] {
        Communicator all = world.world(rank);
        return each.make(all);
      });
    };
    auto first = make(0), second = make(1);
    world.world(2).abort("the test said so");
    const auto late = make(2).get();  // of one that has failed
    const auto expect_named = [&](const Result<Communicator>& made) {
      ASSERT_FALSE(made);
      const Status& status = made.error();
      const std::string begins = std::string(each.name) + " of 'world' (ranks 0-2) failed: rank 2 ";
      EXPECT_EQ(status.code(), ErrorCode::aborted) << status.to_string();
      EXPECT_EQ(status.message().substr(0, begins.size()), begins);
      EXPECT_EQ(status.message().find("allreduce"), std::string::npos) << status.message();
      EXPECT_EQ(status.context().collective, each.name);
      EXPECT_EQ(status.context().sequence, 3u) << "the duplicate before it took two numbers";
      EXPECT_EQ(status.context().bytes, 0u);
    };
    expect_named(first.get());
    expect_named(second.get());
    expect_named(late);
  }
}

// The same list is called again and again, with and without a split between.
TEST(Split, leaves_no_trace_in_calls_that_look_like_it) {
  ThreadWorld world(3);
  world.run([](Rank rank, Communicator all) {
    for (int i = 0; i < 3; ++i) {
      std::uint32_t value = 2 + static_cast<std::uint32_t>(rank);
      ASSERT_TRUE(all.allreduce(&value, &value, 1, DataType::uint32, ReduceOp::min).ok());
      EXPECT_EQ(value, 2u);
      ASSERT_TRUE(all.split(rank % 2, 0));
    }
  });
}

}  // namespace
}  // namespace fabring::fixture

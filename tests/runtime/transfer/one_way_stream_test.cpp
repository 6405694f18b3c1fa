// While small messages only come, a look that found something is followed by a rest; where this rank sends, by none.

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/runtime/transfer/transfer_pair.hpp"
#include "transports/forwarding_endpoint.hpp"

namespace fabring::fixture {
namespace {

using Instant = OneWayStream::Instant;

TEST(OneWayStream, flows_after_a_row_of_small_messages_until_something_goes_out) {
  OneWayStream stream;
  for (std::uint32_t i = 0; i < OneWayStream::least_row; ++i) {
    EXPECT_FALSE(stream.flows());
    stream.took(i % 2 == 0 ? 1 : OneWayStream::most_bytes);
    stream.took(0);  // an acknowledgement
  }
  EXPECT_TRUE(stream.flows());
  stream.sent();
  EXPECT_FALSE(stream.flows());
}

TEST(OneWayStream, does_not_flow_where_a_long_message_was_among_them) {
  OneWayStream stream;
  for (std::uint32_t i = 0; i + 1 < OneWayStream::least_row; ++i) stream.took(100);
  stream.took(OneWayStream::most_bytes + 1);
  stream.took(100);
  EXPECT_FALSE(stream.flows());
}

/// Notes, for each poll after one that gave something, how long it was put off.
class Timed final : public ForwardingEndpoint {
 public:
  using ForwardingEndpoint::ForwardingEndpoint;
  std::size_t poll(std::span<Completion> out) override {
    const Instant now = std::chrono::steady_clock::now();
    if (found_) rests.push_back(now - ended_);
    const std::size_t count = ForwardingEndpoint::poll(out);
    found_ = count > 0;
    ended_ = std::chrono::steady_clock::now();
    return count;
  }
  std::vector<std::chrono::nanoseconds> rests;

 private:
  bool found_ = false;
  Instant ended_;
};

struct GatheringStream : testing::Test {
  GatheringStream() : timeline(1), fabric(timeline, 2, any_world(2, 1).weather), endpoint(fabric.open(1)) {
    transfer.let_streams_gather();
    for (bool ready = false; !ready; timeline.pass(std::chrono::microseconds(10))) {
      const bool first = sender.start();
      ready = transfer.start() && first;
    }
  }
  ~GatheringStream() override { fabric.end(); }

  /// The sender's next message comes here.
  void come() {
    const std::size_t before = heard.records.size();
    send(sender, 1, number++, 100);
    while (heard.records.size() == before) {
      sender.poll();
      sender.flush();
      transfer.poll();
      transfer.flush();
      if (!timeline.step()) timeline.pass(std::chrono::microseconds(1));
    }
  }
  std::chrono::nanoseconds shortest_rest_of_the_next(int messages) {
    come();  // and what its polls find besides belongs to what was before
    endpoint.rests.clear();
    for (int i = 0; i < messages; ++i) come();
    return endpoint.rests.empty() ? std::chrono::nanoseconds(-1) : *std::ranges::min_element(endpoint.rests);
  }

  Timeline timeline;
  SimFabric fabric;
  std::unique_ptr<Endpoint> other = fabric.open(0);
  Timed endpoint;
  Recorder heard, heard_by_sender;
  Transfer sender{*other, 0, 2, heard_by_sender, {}};
  Transfer transfer{endpoint, 1, 2, heard, {}};
  std::uint32_t number = 0;
};

TEST_F(GatheringStream, rests_after_each_look_that_found_something) {
  for (std::uint32_t i = 0; i < OneWayStream::least_row; ++i) come();
  EXPECT_GE(shortest_rest_of_the_next(50), OneWayStream::rest);
}

// Of many looks that are not put off one at least is earlier.
TEST_F(GatheringStream, does_not_rest_while_this_rank_answers) {
  heard.meanwhile = [&](const Record&, std::span<const std::byte>) { send(transfer, 0, number++, 100); };
  for (std::uint32_t i = 0; i < OneWayStream::least_row; ++i) come();
  EXPECT_LT(shortest_rest_of_the_next(200), OneWayStream::rest);
}

}  // namespace
}  // namespace fabring::fixture

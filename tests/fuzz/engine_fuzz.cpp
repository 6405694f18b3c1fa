// A rank that says what it likes to the engines of two honest ones (tests/runtime/transfer/hostile_test.cpp, with
// libFuzzer's imagination). The first byte: the world's seed; then to whom, a slot, and the parcel behind its length.

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <deque>

#include "tests/fuzz/pieces.hpp"
#include "tests/fuzz/targets.hpp"
#include "tests/support/sim_world.hpp"

namespace fabring::fuzz::engine {
namespace {

using namespace std::chrono_literals;
constexpr std::size_t most_messages = 16;

std::string parcel(std::uint8_t number, RecordKind kind, std::uint32_t bytes) {
  ParcelHeader header;
  header.records = 1;
  header.number = number;
  Record record;
  record.kind = kind;
  record.communicator = 1;
  record.bytes = bytes;
  record.slot = 64;
  Call call;
  call.count = 1000;
  record.signature = call.signature();
  std::string text(reinterpret_cast<const char*>(&header), sizeof header);
  text.append(reinterpret_cast<const char*>(&record), sizeof record);
  if (kind == RecordKind::data) text.append(padded(bytes), 'x');
  return text;
}

}  // namespace

void run(std::string_view input) {
  GTEST_FLAG_SET(break_on_failure, true);
  Pieces pieces(input);
  fixture::SimWorldOptions options = fixture::any_world(3, pieces.byte());
  options.algorithm = Algorithm::ring;
  options.timeout = 5s;
  options.weather.refusals = 0;
  options.weather.queue = 100;
  std::deque<std::vector<std::byte>> sent;  // alive until the end
  fixture::SimWorld world(options);
  const int honest = world.group({0, 1});
  world.fabric().excuse(2);
  world.mute(2);
  const auto evil = world.fabric().open(2);
  world.everyone_calls({.count = 1000});
  world.linger(1ms);
  for (std::uint64_t i = 0; i < most_messages && !pieces.empty(); ++i) {
    const Rank to = pieces.byte() % 2;
    const Slot slot = pieces.byte();
    const auto bytes = std::as_bytes(std::span(pieces.text()));
    sent.emplace_back(bytes.begin(), bytes.end());
    (void)evil->post_send(to, slot, sent.back(), 1'000'000 + i);
    world.linger(200us);
  }
  const auto fine = world.everyone_calls({.count = 2000}, honest);
  require(world.run(10s), "everything ends");
  for (const auto& operation : fine) require(operation->status().ok(), "what is among honest ranks goes on");
  for (const auto& operation : world.operations())
    require(operation->what.count != 1000 || operation->rank == 2 || !operation->status().ok(),
            "nothing with the hostile rank comes to a good end");
}

Seeds seeds() {
  const auto sent = [](char to, char slot, const std::string& bytes) { return std::string{to, slot} + piece(bytes); };
  return {"\x01" + sent(0, 0, parcel(0, RecordKind::data, 40)) + sent(1, 0, parcel(0, RecordKind::data, 40)),
          "\x02" + sent(0, 0, parcel(0, RecordKind::grant, 200)) + sent(0, 1, parcel(1, RecordKind::announce, 200)),
          "\x03" + sent(1, 0, parcel(0, RecordKind::entered, 0)) + sent(1, 1, parcel(1, RecordKind::matched, 0)),
          "\x04" + sent(0, 0, "GET / HTTP/1.1")};
}

}  // namespace fabring::fuzz::engine

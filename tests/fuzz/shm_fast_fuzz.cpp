// A peer that writes what it likes into the ring of lines for small messages: a line's number, and its bytes behind
// their length. What makes no sense as a message must not do as a record either.

#include "transports/shm/fast_box.hpp"

#include "runtime/transfer/fast_record.hpp"
#include "tests/fuzz/pieces.hpp"
#include "tests/fuzz/shared_pair.hpp"
#include "tests/fuzz/targets.hpp"

namespace fabring::fuzz::shm_fast {
namespace {

/// A line as it is in the ring, written by the real sender.
std::string line_of(const SharedPair& shared, std::uint32_t number) {
  return std::string{static_cast<char>(number), static_cast<char>(number >> 8)} +
         piece({reinterpret_cast<const char*>(shared.pair.fast_lines(true) + number), shm::line});
}

}  // namespace

void run(std::string_view input) {
  static SharedPair shared;
  std::byte* const lines = reinterpret_cast<std::byte*>(shared.pair.fast_lines(true));
  const std::size_t ring_bytes = shared.pair.fast.bytes();
  std::memset(static_cast<void*>(&shared.pair.channel(true)), 0, sizeof(shm::Channel));
  std::memset(lines, 0, ring_bytes);
  shm::ProcessReader reader(shared.pair.channel(true));
  shm::FastInbox inbox(shared.pair, true, shared.peers_arena, shared.own_arena, &reader);
  const shm::FastOutbox answers(shared.pair, false);
  for (Pieces pieces(input); !pieces.empty();) {
    const std::size_t at = pieces.number() % shared.pair.fast.lines * shm::line;
    const std::string_view bytes = pieces.text();
    std::memcpy(lines + at, bytes.data(), std::min(bytes.size(), ring_bytes - at));
    for (std::uint32_t turn = 0;; ++turn) {
      FastMessage message;
      const auto found = inbox.front(message);
      if (found == shm::FastInbox::Found::nonsense) return;
      if (found == shm::FastInbox::Found::nothing) break;
      require(turn <= shared.pair.fast.lines, "a ring that is written once is read once");
      (void)sum_of(message.payload);
      if (const auto record = record_of(message)) {
        require(fits_fast(*record), "a record that came so may travel so");
        require(record->kind == RecordKind::data || message.payload.size() == sizeof(FastExtra),
                "only data have payloads");
      }
      if (std::byte* const place = inbox.place_of_answer(answers)) std::memset(place, 1, message.payload.size());
      (void)inbox.is_intact();
      inbox.pop();
    }
  }
}

Seeds seeds() {
  SharedPair shared;
  shm::FastOutbox out(shared.pair, true);
  Record record;
  record.bytes = 10;
  std::array<std::byte, 200> payload{};
  std::uint32_t loan = 0;
  (void)out.put(fast_head(record), std::span(payload).first(10));
  (void)out.put(fast_head(record), payload);
  (void)out.lend(fast_head(record), shm::page, 3000, nullptr, loan);
  record.kind = RecordKind::grant;
  (void)out.put(fast_head(record), std::span(payload).first(sizeof(FastExtra)));
  std::string all;
  for (std::uint32_t number = 0; number < 8; ++number) all += line_of(shared, number);
  return {all, line_of(shared, 0)};
}

}  // namespace fabring::fuzz::shm_fast

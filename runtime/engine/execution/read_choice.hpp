#pragma once
// ReadChoice: whether the messages of an operation that only moves data are copied to shared memory and out of it, or
// read by their receivers where they lie (Endpoint::post_readable_send). Which is quicker depends on the machine, on
// what lies in which cache and on what the ranks do at the same time; a message alone does not show it. So operations
// are timed: some of a kind each way, then by the quicker one, and after many others once more. Members try the same
// way at the same operation, as they count alike; what each of them sends is its own choice, and nobody else's
// business.

#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "fabring/types.hpp"
#include "runtime/base/pace.hpp"

namespace fabring {

class ReadChoice {
 public:
  static constexpr std::uint32_t period = 256;  ///< operations from one trial to the next
  static constexpr std::uint32_t trials = Pace::samples;

  /// Is the next operation's data to be read?
  bool next() {
    const std::uint32_t turn = turn_++ % period;
    if (turn == 0) tried_ = !reads_;
    // The first of a trial finds nothing in its place, and is one more.
    return turn <= trials ? tried_ : turn <= 2 * trials + 1 ? !tried_ : reads_;
  }
  /// How long it took to move so many bytes.
  void took(bool was_read, std::size_t bytes, std::chrono::nanoseconds time) {
    if (bytes == 0) return;
    paces_[was_read ? 1 : 0].took(bytes, time.count());
    reads_ = paces_[1].nanoseconds_a_byte() < paces_[0].nanoseconds_a_byte();
  }

 private:
  std::array<Pace, 2> paces_;  // copied, read
  std::uint32_t turn_ = 0;
  bool reads_ = false;
  bool tried_ = false;
};

/// One for each kind of operation of a communicator: a collective, and a length to the next power of two. They live as
/// long as this.
class ReadChoices {
 public:
  /// `bytes`: as all members know them; 0 where they do not. Null: so few that no message is read.
  ReadChoice* of(Collective collective, std::size_t bytes) {
    if (bytes != 0 && bytes < least_bytes) return nullptr;
    return &kinds_[{collective, static_cast<int>(std::bit_width(bytes))}];
  }

 private:
  static constexpr std::size_t least_bytes = std::size_t{64} << 10;

  std::map<std::pair<Collective, int>, ReadChoice> kinds_;
};

}  // namespace fabring

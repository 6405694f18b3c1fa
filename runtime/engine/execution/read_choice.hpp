#pragma once
// ReadChoice: whether the messages of an operation that only moves data are copied to shared memory and out of it, or
// read by their receivers where they lie (Endpoint::post_readable_send). Which is quicker depends on the machine, on
// what lies in which cache and on what the ranks do at the same time; a message alone does not show it. So operations
// are timed: some of a kind each way, then by the quicker one, and after many others once more. Members try the same
// way at the same operation, as they count alike (but for those whose memory is of another kind now than then, or a
// GPU's); what each of them sends is its own choice, and nobody else's business.

#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

#include "fabring/types.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/pace.hpp"

namespace fabring {

class ReadChoice {
 public:
  struct Turn {
    bool read = false;      ///< what is sent may be read where it lies
    bool measured = false;  ///< took() is to be told how long it took
  };

  /// `in_a_row`: how many operations go the same way before it is measured how long they took together. One alone says
  /// little: of ranks that share a core now one waits for the other, now the other for the one.
  explicit ReadChoice(std::uint32_t in_a_row) : in_a_row_(in_a_row) {}

  /// For the next operation. Before a trial comes one that finds pages and connections as they are only once. In it the
  /// ways take turns, as what else the machine does changes, and the first of a row finds in the caches what the other
  /// way has left there. Between trials nothing is measured: one way alone may be slower now because all is.
  Turn next() {
    const std::uint32_t turn = turn_++ % (rows_of_period * in_a_row_);
    if (turn == 0) {
      paces_ = {};
      row_ = {};
    }
    if (turn == 0 || turn > rows_of_trial * in_a_row_) return {reads_, false};
    const std::uint32_t row = (turn - 1) / in_a_row_;
    return {row % 2 == 0, (turn - 1) % in_a_row_ != 0};
  }
  /// How long a measured one took to move so many bytes.
  void took(bool was_read, std::size_t bytes, std::chrono::nanoseconds time) {
    if (was_read != row_.read) row_ = {.read = was_read};
    ++row_.operations;
    row_.bytes += bytes;
    row_.time += time;
    if (row_.operations < in_a_row_ - 1) return;
    const Row row = std::exchange(row_, {.read = was_read});
    if (row.bytes == 0) return;
    paces_[was_read ? 1 : 0].took(row.bytes, row.time.count());
    if (was_read) return;
    const double chosen = paces_[reads_ ? 1 : 0].nanoseconds_a_byte(),
                 other = paces_[reads_ ? 0 : 1].nanoseconds_a_byte();
    if (other < worth_a_change * chosen) reads_ = !reads_;
  }

  static constexpr std::uint32_t rows_of_trial = 4;    ///< the better of two counts, each way
  static constexpr std::uint32_t rows_of_period = 64;  ///< from one trial to the next
  /// How much less the other way must take: few operations are measured, and also how late ranks come.
  static constexpr double worth_a_change = 0.95;

 private:
  struct Row {
    bool read = false;
    std::uint32_t operations = 0;
    std::size_t bytes = 0;
    std::chrono::nanoseconds time{0};
  };
  std::array<Pace, 2> paces_;  // copied, read
  std::uint32_t in_a_row_;
  std::uint32_t turn_ = 0;
  Row row_;
  bool reads_ = false;
};

/// What was chosen for an operation. Lives no longer than its ReadChoices.
class ChosenRead {
 public:
  ChosenRead() = default;
  ChosenRead(ReadChoice& choice, const Clock& clock) {
    const ReadChoice::Turn turn = choice.next();
    is_read_ = turn.read;
    if (!turn.measured) return;
    told_ = &choice;
    begin_ = clock.now();
  }
  bool is_read() const { return is_read_; }
  /// The operation is over.
  void over(std::size_t bytes, const Clock& clock) const {
    if (told_ != nullptr) told_->took(is_read_, bytes, clock.now() - begin_);
  }

 private:
  bool is_read_ = false;
  ReadChoice* told_ = nullptr;  // null: nothing is measured
  Time begin_{};
};

/// One ReadChoice for each kind of operation of a communicator: a collective, a length to the next power of two, and
/// whether this rank sends from mapped memory, of which nothing is read in this way and which takes less time.
class ReadChoices {
 public:
  /// For the next operation. `bytes`: as all members know them; 0 where they do not.
  ChosenRead choose(Collective collective, std::size_t bytes, bool mapped, const Clock& clock) {
    ReadChoice* const choice = of(collective, bytes, mapped);
    return choice == nullptr ? ChosenRead() : ChosenRead(*choice, clock);
  }
  /// Null: so few bytes, or so many, that no message is read. Lives as long as this.
  ReadChoice* of(Collective collective, std::size_t bytes, bool mapped = false) {
    if (bytes != 0 && bytes < least_bytes) return nullptr;
    if (collective == Collective::broadcast && bytes > most_one_way) return nullptr;
    const std::tuple kind(collective, static_cast<int>(std::bit_width(bytes)), mapped);
    return &kinds_.try_emplace(kind, in_a_row(bytes)).first->second;
  }

  /// Long ones vary less, and many programs have few.
  static constexpr std::uint32_t in_a_row(std::size_t bytes) {
    return bytes < (std::size_t{1} << 20) ? 8 : bytes < (std::size_t{8} << 20) ? 4 : 2;
  }

 private:
  static constexpr std::size_t least_bytes = std::size_t{64} << 10;
  static constexpr std::size_t most_one_way = std::size_t{2} << 20;  // of more, two ranks copy at once in less time

  std::map<std::tuple<Collective, int, bool>, ReadChoice> kinds_;
};

}  // namespace fabring

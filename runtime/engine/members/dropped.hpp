#pragma once
// Communicators that a rank has dropped while others wait there for what it will never call. Dropping tells nobody, as
// most are dropped by all of their members; so who has waited for a while asks those it waits for, by the control
// plane, and who has dropped it answers.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "fabring/types.hpp"

namespace fabring {

struct DroppedLetter {
  static constexpr char mark = 'd';  ///< before it, in a letter

  bool answers = false;        ///< else it asks, and has nothing but the id
  std::uint32_t id = 0;        ///< of the communicator
  std::uint32_t sequence = 0;  ///< of the last collective that was called there; 0: none was
  bool counted = false;        ///< `messages` is known
  std::uint32_t messages = 0;  ///< sent there to who asks, in all

  std::string encode() const;
  static std::optional<DroppedLetter> decode(std::string_view bytes);
};

/// What others have answered. Any thread.
class DroppedElsewhere {
 public:
  static constexpr std::size_t most_answers = 4096;  ///< kept; the oldest goes first, and may be asked for again
  void heard(Rank from, const DroppedLetter& answer);
  std::optional<DroppedLetter> of(Rank rank, std::uint32_t id) const;

 private:
  struct Answer {
    Rank from;
    DroppedLetter letter;
  };
  mutable std::mutex mutex_;
  std::deque<Answer> answers_;
};

}  // namespace fabring

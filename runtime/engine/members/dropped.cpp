#include "runtime/engine/members/dropped.hpp"

#include <algorithm>

#include "runtime/base/wire.hpp"

namespace fabring {

std::string DroppedLetter::encode() const {
  return WireWriter()
      .number<std::uint8_t>(answers ? 1 : 0)
      .number(id)
      .number(sequence)
      .number<std::uint8_t>(counted ? 1 : 0)
      .number(messages)
      .take();
}

std::optional<DroppedLetter> DroppedLetter::decode(std::string_view bytes) {
  WireReader in(bytes);
  DroppedLetter letter;
  const auto answers = in.number<std::uint8_t>();
  letter.id = in.number<std::uint32_t>();
  letter.sequence = in.number<std::uint32_t>();
  const auto counted = in.number<std::uint8_t>();
  letter.messages = in.number<std::uint32_t>();
  if (!in.complete() || answers > 1 || counted > 1) return std::nullopt;
  letter.answers = answers == 1;
  letter.counted = counted == 1;
  return letter;
}

void DroppedElsewhere::heard(Rank from, const DroppedLetter& answer) {
  std::lock_guard lock(mutex_);
  std::erase_if(answers_, [&](const Answer& known) { return known.from == from && known.letter.id == answer.id; });
  if (answers_.size() >= most_answers) answers_.pop_front();
  answers_.push_back({from, answer});
}

std::optional<DroppedLetter> DroppedElsewhere::of(Rank rank, std::uint32_t id) const {
  std::lock_guard lock(mutex_);
  const auto found =
      std::ranges::find_if(answers_, [&](const Answer& known) { return known.from == rank && known.letter.id == id; });
  return found == answers_.end() ? std::nullopt : std::optional(found->letter);
}

}  // namespace fabring

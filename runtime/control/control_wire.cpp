#include "runtime/control/control_wire.hpp"

#include "runtime/base/wire.hpp"

namespace fabring::control {

std::string encode(const Entry& entry) {
  return WireWriter().number(entry.gather).number(entry.origin).text(entry.blob, most_blob_bytes).take();
}

std::string encode(const Note& note) {
  return WireWriter().number(note.origin).text(note.text, most_activity_bytes).take();
}

std::string encode(const Failure& failure) {
  return WireWriter()
      .number(static_cast<std::uint8_t>(failure.code))
      .number(failure.culprit)
      .number(failure.reporter)
      .number(failure.communicator)
      .text(failure.text, most_text_bytes)
      .number(static_cast<std::uint8_t>(failure.ended ? 1 : 0))
      .take();
}

std::string encode(const RefusedCall& refusal) {
  return WireWriter()
      .number(refusal.rank)
      .number(refusal.communicator)
      .number(refusal.sequence)
      .number(static_cast<std::uint8_t>(refusal.kind))
      .number(refusal.peer)
      .number(refusal.tag)
      .number(refusal.made)
      .text(refusal.text, most_reason_bytes)
      .take();
}

std::string encode(const Goodbye& goodbye) {
  return WireWriter().number(goodbye.origin).text(goodbye.account, most_account_bytes).take();
}

std::optional<Goodbye> decode_goodbye(std::string_view payload) {
  WireReader in(payload);
  Goodbye goodbye;
  goodbye.origin = in.number<Rank>();
  goodbye.account = in.text(most_account_bytes);
  if (!in.complete()) return std::nullopt;
  return goodbye;
}

std::string encode(const Letter& letter) {
  return WireWriter().number(letter.from).number(letter.to).text(letter.text, most_letter_bytes).take();
}

std::optional<Letter> decode_letter(std::string_view payload) {
  WireReader in(payload);
  Letter letter;
  letter.from = in.number<Rank>();
  letter.to = in.number<Rank>();
  letter.text = in.text(most_letter_bytes);
  if (!in.complete()) return std::nullopt;
  return letter;
}

std::string encode(const Silence& silence) {
  return WireWriter().number(silence.observer).number(silence.rank).number(silence.ms).take();
}

std::optional<Silence> decode_silence(std::string_view payload) {
  WireReader in(payload);
  Silence silence;
  silence.observer = in.number<Rank>();
  silence.rank = in.number<Rank>();
  silence.ms = in.number<std::uint32_t>();
  if (!in.complete()) return std::nullopt;
  return silence;
}

std::string encode(const Moved& moved) { return WireWriter().number(moved.rank).number(moved.parent).take(); }

std::optional<Moved> decode_moved(std::string_view payload) {
  WireReader in(payload);
  Moved moved;
  moved.rank = in.number<Rank>();
  moved.parent = in.number<Rank>();
  if (!in.complete()) return std::nullopt;
  return moved;
}

std::string encode(const Question& question) {
  return WireWriter().number(question.asker).number(question.number).take();
}

std::string encode(const Answer& answer) {
  return WireWriter()
      .number(answer.question.asker)
      .number(answer.question.number)
      .number(answer.origin)
      .text(answer.state, most_state_bytes)
      .take();
}

std::optional<Question> decode_question(std::string_view payload) {
  WireReader in(payload);
  Question question;
  question.asker = in.number<Rank>();
  question.number = in.number<std::uint32_t>();
  if (!in.complete()) return std::nullopt;
  return question;
}

std::optional<Answer> decode_answer(std::string_view payload) {
  WireReader in(payload);
  Answer answer;
  answer.question.asker = in.number<Rank>();
  answer.question.number = in.number<std::uint32_t>();
  answer.origin = in.number<Rank>();
  answer.state = in.text(most_state_bytes);
  if (!in.complete()) return std::nullopt;
  return answer;
}

std::optional<Entry> decode_entry(std::string_view payload) {
  WireReader in(payload);
  Entry entry;
  entry.gather = in.number<std::uint32_t>();
  entry.origin = in.number<Rank>();
  entry.blob = in.text(most_blob_bytes);
  if (!in.complete()) return std::nullopt;
  return entry;
}

std::optional<Note> decode_note(std::string_view payload) {
  WireReader in(payload);
  Note note;
  note.origin = in.number<Rank>();
  note.text = tidy(in.text(most_activity_bytes), most_activity_bytes);
  if (!in.complete()) return std::nullopt;
  return note;
}

std::optional<Failure> decode_failure(std::string_view payload, int world_size) {
  WireReader in(payload);
  Failure failure;
  const auto code = in.number<std::uint8_t>();
  failure.culprit = in.number<Rank>();
  failure.reporter = in.number<Rank>();
  failure.communicator = in.number<std::uint64_t>();
  failure.text = tidy(in.text(most_text_bytes), most_text_bytes);
  const auto ended = in.number<std::uint8_t>();
  const auto is_rank = [&](Rank rank) { return rank >= -1 && rank < world_size; };
  if (!in.complete() || code == 0 || code > static_cast<std::uint8_t>(last_error_code)) return std::nullopt;
  if (!is_rank(failure.culprit) || !is_rank(failure.reporter) || ended > 1) return std::nullopt;
  failure.ended = ended == 1;
  failure.code = static_cast<ErrorCode>(code);
  return failure;
}

std::optional<RefusedCall> decode_refusal(std::string_view payload) {
  WireReader in(payload);
  RefusedCall refusal;
  refusal.rank = in.number<Rank>();
  refusal.communicator = in.number<std::uint64_t>();
  refusal.sequence = in.number<std::uint32_t>();
  const auto kind = in.number<std::uint8_t>();
  refusal.peer = in.number<Rank>();
  refusal.tag = in.number<std::int32_t>();
  refusal.made = in.number<std::uint64_t>();
  refusal.text = tidy(in.text(most_reason_bytes), most_reason_bytes);
  if (!in.complete() || refusal.communicator == 0 || refusal.sequence == 0) return std::nullopt;
  if (kind > static_cast<std::uint8_t>(RefusedCall::Kind::subgroup)) return std::nullopt;
  refusal.kind = static_cast<RefusedCall::Kind>(kind);
  return refusal;
}

std::string tidy(std::string_view text, std::size_t most) {
  std::string shown(text.substr(0, most));
  for (char& c : shown)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return shown;
}

}  // namespace fabring::control

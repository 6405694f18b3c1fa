// The messages of the control plane. The first byte says which.

#include "runtime/control/control_wire.hpp"
#include "tests/fuzz/round_trip.hpp"

namespace fabring::fuzz::control_wire {
namespace {

constexpr int world = 8;
char type(control::Message message) { return static_cast<char>(message); }

}  // namespace

void run(std::string_view input) {
  if (input.empty()) return;
  const std::string_view payload = input.substr(1);
  switch (static_cast<control::Message>(input[0])) {
    case control::Message::entry:
      return exact(payload, control::decode_entry);
    case control::Message::question:
      return exact(payload, control::decode_question);
    case control::Message::goodbye:
      return exact(payload, control::decode_goodbye);
    case control::Message::letter:
      return exact(payload, control::decode_letter);
    case control::Message::silence:
      return exact(payload, control::decode_silence);
    case control::Message::moved:
      return exact(payload, control::decode_moved);
    case control::Message::answer:
      return exact(payload, control::decode_answer);
    case control::Message::activity:
      return settled(payload, control::decode_note);
    case control::Message::refusal:
      if (const auto refusal = control::decode_refusal(payload)) {
        require(refusal->communicator != 0 && refusal->sequence != 0, "it is about a call of a communicator");
        require(fit_to_be_shown(refusal->text), "its text is fit to be shown");
      }
      return settled(payload, control::decode_refusal,
                     [](const RefusedCall& refusal) { return control::encode(refusal); });
    case control::Message::failure:
      if (const auto failure = control::decode_failure(payload, world)) {
        require(failure->culprit >= -1 && failure->culprit < world, "the culprit is a rank or nobody");
        require(failure->reporter >= -1 && failure->reporter < world, "so is the reporter");
        require(failure->code != ErrorCode::ok, "a failure is one");
        require(fit_to_be_shown(failure->text), "its text is fit to be shown");
      }
      return settled(
          payload, [](std::string_view bytes) { return control::decode_failure(bytes, world); },
          [](const Failure& failure) { return control::encode(failure); });
    default:
      return;
  }
}

Seeds seeds() {
  using control::Message;
  return {type(Message::entry) + control::encode(control::Entry{3, 1, "some blob"}),
          type(Message::activity) + control::encode(control::Note{2, "reads its data"}),
          type(Message::failure) + control::encode(Failure{ErrorCode::peer_lost, 2, 1, 7, "rank 2 died"}),
          type(Message::refusal) + control::encode(RefusedCall{1, std::uint64_t{1} << 32, 4, "there is no root 7"}),
          type(Message::refusal) + control::encode(RefusedCall{1, std::uint64_t{1} << 32, 1, "there is no rank 7",
                                                               RefusedCall::Kind::send, 2, 5}),
          type(Message::question) + control::encode(control::Question{1, 9}),
          type(Message::goodbye) + control::encode(control::Goodbye{2, "account"}),
          type(Message::letter) + control::encode(control::Letter{2, 1, "letter"}),
          type(Message::silence) + control::encode(control::Silence{0, 3, 4000}),
          type(Message::moved) + control::encode(control::Moved{9, 2}),
          type(Message::answer) + control::encode(control::Answer{{1, 9}, 2, "state"})};
}

}  // namespace fabring::fuzz::control_wire

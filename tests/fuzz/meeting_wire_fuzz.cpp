// The messages of the rendezvous, and what stands for them in a store ('m', 'j'). The first byte says which.

#include "runtime/bootstrap/meeting_wire.hpp"
#include "tests/fuzz/round_trip.hpp"

namespace fabring::fuzz::meeting_wire {
namespace {
char type(meeting::Message message) { return static_cast<char>(message); }
}  // namespace

void run(std::string_view input) {
  if (input.empty()) return;
  const std::string_view payload = input.substr(1);
  if (input[0] == 'm') {
    const auto read = meeting::decode_store_meeting(payload);
    require(read || !read.error().ok(), "what is no meeting is an error");
    return settled(payload, meeting::decode_store_meeting);
  }
  if (input[0] == 'j') return settled(payload, meeting::decode_store_join);
  switch (static_cast<meeting::Message>(input[0])) {
    case meeting::Message::join:
      if (const auto join = meeting::decode_join(payload))
        require(fit_to_be_shown(join->host), "a host's name is fit to be shown");
      return settled(payload, meeting::decode_join);
    case meeting::Message::welcome:
      return settled(payload, meeting::decode_welcome);
    case meeting::Message::put:
    case meeting::Message::value:
      return exact(payload, meeting::decode_pair);
    case meeting::Message::failed:
    case meeting::Message::give_up:
      if (const auto status = meeting::decode_status(payload)) {
        require(!status->ok(), "what failed is an error");
        require(fit_to_be_shown(status->message()), "its text is fit to be shown");
      }
      return settled(payload, meeting::decode_status, [](const Status& status) { return meeting::encode(status); });
    case meeting::Message::get:
    case meeting::Message::waiting:
      if (const auto text = meeting::decode_text(payload))
        require(meeting::decode_text(meeting::encode_text(*text)) == text, "a text stays what it is");
      return;
    default:
      return;
  }
}

Seeds seeds() {
  using meeting::Message;
  return {
      type(Message::join) + meeting::encode(meeting::Join{"boot/4026531840", "host-a", 4711, {"10.0.0.1", "fd00::1"}}),
      type(Message::welcome) + meeting::encode(meeting::Welcome{0x1234567890abcdef, true, "", ""}),
      type(Message::welcome) + meeting::encode(meeting::Welcome{0x1234567890abcdef, false, "fe80::1%eth0", "10.0.0.1"}),
      type(Message::put) + meeting::encode(meeting::Pair{"control/3", "10.0.0.3:41234"}),
      type(Message::failed) + meeting::encode(Status(ErrorCode::timeout, "rank 2 did not come")),
      'm' + meeting::encode(meeting::StoreMeeting{42, true, "10.0.0.1"}),
      'm' + meeting::encode_failed_meeting(Status(ErrorCode::timeout, "rank 2 did not come")),
      'j' + meeting::encode(meeting::StoreJoin{{"boot/4026531840", "host-a", 4711, {"10.0.0.1"}}, "fabring-host-0-1"}),
      type(Message::waiting) + meeting::encode_text("waits for rank 2")};
}

}  // namespace fabring::fuzz::meeting_wire

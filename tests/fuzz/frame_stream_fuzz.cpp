// Frames of the rendezvous and the control plane, cut out of a stream that comes in two pieces. The first byte: where
// the second piece begins.

#include "runtime/base/frame_stream.hpp"

#include "tests/fuzz/wire_ends.hpp"

namespace fabring::fuzz::frame_stream {
namespace {
constexpr std::size_t most_payload = 256;
constexpr std::uint8_t nonsense = 255;  // a type that the receiver does not accept
}  // namespace

void run(std::string_view input) {
  if (input.empty()) return;
  const std::string_view bytes = input.substr(1);
  const std::size_t cut = std::min<std::size_t>(static_cast<unsigned char>(input[0]), bytes.size());
  WireEnds& ends = WireEnds::fresh();
  std::string heard;
  int ended = 0;
  const auto stream = FrameStream::open(ends.loop(), ends.take_ours(), most_payload,
                                        {[&](std::uint8_t type, std::string_view payload) {
                                           require(payload.size() <= most_payload, "no frame is longer than allowed");
                                           require(ended == 0, "nothing comes after the end");
                                           heard += *FrameStream::encode(type, payload);
                                           return type != nonsense;
                                         },
                                         [&](const std::string& why) {
                                           require(!why.empty(), "an end has a reason");
                                           ++ended;
                                         }});
  ends.say(bytes.substr(0, cut));
  ends.loop().poll();
  ends.say(bytes.substr(cut));
  ends.finish();
  for (int turn = 0; turn < 20 && ended == 0; ++turn) ends.loop().poll();
  require(ended == 1, "the end is heard, once");
  require(bytes.starts_with(heard), "frames are what came, in its order");
}

Seeds seeds() {
  const auto frame = [](std::uint8_t type, std::size_t bytes) {
    return *FrameStream::encode(type, std::string(bytes, 'x'));
  };
  return {'\x03' + frame(1, 0) + frame(2, 20), '\x40' + frame(3, most_payload), '\0' + frame(1, most_payload + 1),
          '\x09' + frame(nonsense, 4) + frame(1, 1)};
}

}  // namespace fabring::fuzz::frame_stream

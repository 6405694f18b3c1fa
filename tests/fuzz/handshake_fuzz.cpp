// The conversation at the beginning of every connection, with somebody who says what the input says. The first byte:
// how this side is set up.

#include "runtime/base/handshake.hpp"

#include "runtime/base/hello.hpp"
#include "tests/fuzz/wire_ends.hpp"

namespace fabring::fuzz::handshake {
namespace {

enum Setup : unsigned char { initiator = 1, secret = 2 };

HandshakeOptions options_of(unsigned char setup) {
  HandshakeOptions options;
  options.initiator = (setup & initiator) != 0;
  options.job_id = "job";
  options.job_nonce = 7;
  options.self = 0;
  options.world_size = 4;
  if ((setup & secret) != 0) options.secret = "sixteen bytes, and more";
  return options;
}

}  // namespace

void run(std::string_view input) {
  if (input.empty()) return;
  const HandshakeOptions options = options_of(static_cast<unsigned char>(input[0]));
  WireEnds& ends = WireEnds::fresh();
  int ended = 0;
  HandshakeResult result;
  const auto guard = fabring::handshake(ends.loop(), ends.take_ours(), options, [&](HandshakeResult with) {
    ++ended;
    result = std::move(with);
  });
  ends.say(input.substr(1));
  ends.finish();
  for (int turn = 0; turn < 20 && ended == 0; ++turn) ends.loop().poll();
  require(ended == 1, "whoever has said all that it says is judged at once");
  require((result.stream != nullptr) == result.status.ok(), "what failed says why");
  require(options.secret.empty() || result.stream == nullptr, "nobody guesses a proof");
}

Seeds seeds() {
  Seeds all;
  for (unsigned char setup = 0; setup < 4; ++setup) {
    HandshakeOptions peer = options_of(static_cast<unsigned char>(setup ^ initiator));
    peer.self = 1;
    auto hello = make_hello(peer);
    if (!hello) continue;
    hello->challenge.fill(3);  // the same at every start
    all.push_back(static_cast<char>(setup) + encode(*hello) + std::string(34, '\0'));
    if (!hello->initiator) all.push_back(static_cast<char>(setup) + encode(without_job(*hello)) + '\5');
    hello->rank = 9;
    all.push_back(static_cast<char>(setup) + encode(*hello));
  }
  return all;
}

}  // namespace fabring::fuzz::handshake

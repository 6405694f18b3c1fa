// What a peer sends over a data connection, after the handshake: headers and messages, in two pieces. The first byte:
// where the second begins.

#include "transports/tcp/lane.hpp"

#include <array>
#include <vector>

#include "tests/fuzz/wire_ends.hpp"
#include "transports/tcp/lane_watch.hpp"
#include "transports/tcp/peer.hpp"

namespace fabring::fuzz::tcp_lane {
namespace {

// The fourth does not fit the lane's own buffer, before the last there is a padded header.
constexpr std::array<std::size_t, 5> capacities{0, 16, 3000, 20'000, tcp::long_message_bytes};

std::string message(Slot slot, std::size_t bytes) {
  std::vector<std::byte> header(tcp::header_bytes_of(bytes));
  tcp::encode({slot, static_cast<std::uint32_t>(bytes)}, header.data());
  return std::string(reinterpret_cast<const char*>(header.data()), header.size()) + std::string(bytes, 'x');
}

}  // namespace

void run(std::string_view input) {
  if (input.empty()) return;
  const std::string_view bytes = input.substr(1);
  const std::size_t cut = std::min<std::size_t>(static_cast<unsigned char>(input[0]), bytes.size());
  WireEnds& ends = WireEnds::fresh();
  Ledger ledger;
  tcp::LaneWatch watch;
  tcp::Staging staging;
  tcp::Peer peer(1, ledger, watch, staging);
  tcp::Lane lane(peer, ends.take_ours(), staging);
  SlotTable posted;
  std::array<std::vector<std::byte>, capacities.size()> memory;  // of their own, so that a byte too many is seen
  for (Slot slot = 0; slot < capacities.size(); ++slot) {
    memory[slot].resize(capacities[slot]);
    posted.insert({slot, false, memory[slot].data(), capacities[slot], slot});
  }
  tcp::Progress progress = tcp::Progress::more;
  const auto over = [&] { return progress == tcp::Progress::ended || progress == tcp::Progress::failed; };
  ends.say(bytes.substr(0, cut));
  for (int turn = 0; turn < 4 && !over(); ++turn) progress = lane.read(posted, ledger);
  ends.say(bytes.substr(cut));
  ends.finish();
  for (int turn = 0; turn < 100 && !over(); ++turn) progress = lane.read(posted, ledger);
  require(over(), "a stream that ended is read to its end, in a few turns");
  require((progress == tcp::Progress::failed) == !lane.failure().empty(), "what failed says why");
  std::array<Completion, capacities.size() + 1> done;
  const std::size_t count = ledger.hand_out(done);
  require(count + posted.size() == capacities.size(), "every receive completes once or stays");
  for (std::size_t i = 0; i < count; ++i) {
    require(done[i].context < capacities.size() && posted.find(static_cast<Slot>(done[i].context)) == nullptr,
            "what is complete is not posted any more");
    require(done[i].bytes <= capacities[done[i].context], "no message is longer than its receive");
  }
}

Seeds seeds() {
  return {'\x05' + message(1, 16) + message(0, 0) + message(2, 2000),
          '\x20' + message(3, 20'000),
          '\x00' + message(2, 3001),
          '\x08' + message(9, 4),
          '\xff' + message(1, 8) + message(1, 8),
          '\x64' + message(4, tcp::long_message_bytes).substr(0, 500)};
}

}  // namespace fabring::fuzz::tcp_lane

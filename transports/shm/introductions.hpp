#pragma once
// Introductions: how two ranks of a node come to share memory. Every rank listens on an abstract unix socket, which has
// no file and is reachable in this network namespace only. The higher rank calls the lower one, with the memory of the
// pair, its own arena and its bell (SCM_RIGHTS); the lower one answers with its own. Both check that the other runs as
// the same user (SO_PEERCRED) and knows the job's nonce; whoever does not is a stranger: turned away and counted. The
// connection stays as the pair's lifeline. Nothing here blocks.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transports/shm/arena.hpp"
#include "transports/shm/hello.hpp"
#include "transports/shm/peer.hpp"
#include "transports/transport.hpp"

namespace fabring::shm {

class Introductions {
 public:
  using Met = std::function<void(Rank, Acquaintance)>;
  using Failed = std::function<void(Rank, const Status&)>;

  /// `time_to_speak`: within which whoever comes says who it is.
  /// Errors: unavailable where there are no abstract unix sockets.
  static Result<std::unique_ptr<Introductions>> open(
      const EndpointOptions& options, const Arena& arena, int bell,
      std::chrono::milliseconds time_to_speak = std::chrono::seconds(10));

  /// What the names of a rank's sockets begin with; the rest is by chance. The nonce does not stand in it.
  static std::string name_begin(std::uint64_t job_nonce, Rank rank);
  /// "shm " and the socket's name.
  std::string address() const { return "shm " + name_; }
  /// Errors: invalid_argument for an address that is none.
  Status add(Rank peer, std::string_view address);
  bool expecting() const { return expected_ > 0; }          ///< somebody who was added has not been met
  bool has_visitors() const { return !visitors_.empty(); }  ///< somebody came and has not been answered
  void poll(const Met& met, const Failed& failed);
  /// Why this process can get to know nobody any more, by a limit of its own and no fault of a peer; ok while it can.
  const Status& error() const { return error_; }
  /// It has met its limit with this peer.
  void fail_here(Rank peer, std::string_view why, ErrorCode code = ErrorCode::transport_error);
  /// This peer is not wanted any more.
  void forget(Rank peer);
  void close();

  int listener() const { return listener_.fd(); }
  std::uint64_t strangers() const { return strangers_; }

 private:
  Introductions(const EndpointOptions& options, const Arena& arena, int bell, std::chrono::milliseconds time_to_speak);

  enum class Stage : std::uint8_t { unknown, to_call, connected, called, awaited, over };
  struct Neighbour {
    Stage stage = Stage::unknown;
    bool is_visitor = false;  ///< it has called, and gets its answer
    std::string name;
    Descriptor socket;
    SharedMemory pair;
    std::chrono::steady_clock::time_point deadline{};  ///< for the hello of who is connected
  };
  struct Visitor {
    Descriptor socket;
    std::chrono::steady_clock::time_point deadline{};  ///< to say who it is; then for its answer
    std::optional<Rank> rank = {};
    Acquaintance handed = {};  ///< by that rank, all but the lifeline
  };

  /// What it handed over: no memory, or none that fits into this process.
  void not_adopted(Rank peer, const Status& why, const Failed& failed);
  void accept_visitors();
  /// True when it is done with, one way or the other.
  bool hear(Visitor& visitor, const Met& met, const Failed& failed);
  /// False: a stranger.
  bool welcome(const Hello& hello, Heard heard, std::vector<Descriptor>& descriptors, Visitor& visitor,
               const Failed& failed);
  /// False: the kernel takes no descriptors now; at the next turn.
  bool answer(Visitor& visitor, const Met& met);
  void call(Rank peer, Neighbour& neighbour, const Failed& failed);
  /// False as above.
  bool hand_memory(Rank peer, Neighbour& neighbour, const Failed& failed);
  void hear_answer(Rank peer, Neighbour& neighbour, const Met& met, const Failed& failed);
  void over(Neighbour& neighbour);

  const EndpointOptions options_;
  const Arena& arena_;
  const int bell_;
  const std::chrono::milliseconds time_to_speak_;
  const std::size_t pair_bytes_;
  std::string name_;
  Descriptor listener_;
  std::vector<Neighbour> neighbours_;  // by rank
  std::vector<Visitor> visitors_;
  std::size_t expected_ = 0;
  std::uint64_t strangers_ = 0;
  Status error_;
};

}  // namespace fabring::shm

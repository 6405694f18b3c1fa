#pragma once
// What `fabring run` and the agents of its hosts say to each other, over the agent's stdin and stdout: a greeting line,
// then frames of a 4-byte length, a type and a payload. Neither side trusts the other's lengths and numbers: a login
// shell may print anything in between.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fabring/status.hpp"
#include "runtime/base/settings.hpp"
#include "tools/fabring/launch/child_process.hpp"
#include "tools/fabring/launch/local_job.hpp"
#include "tools/fabring/launch/rank_group.hpp"

namespace fabring::tools {

enum class FromAgent : std::uint8_t { ready = 1, failed, output, ended, finished, input_taken, beat };
enum class ToAgent : std::uint8_t { start = 1, signal, input, input_end, pause, beat };

constexpr std::size_t most_frame_from_agent = 1 << 20;
constexpr std::size_t most_frame_to_agent = 16 << 20;  ///< an order carries environments and command lines

std::string encode_frame(std::uint8_t type, std::string_view payload);
inline std::string encode_frame(FromAgent type, std::string_view payload) {
  return encode_frame(static_cast<std::uint8_t>(type), payload);
}
inline std::string encode_frame(ToAgent type, std::string_view payload) {
  return encode_frame(static_cast<std::uint8_t>(type), payload);
}

struct Frame {
  std::uint8_t type = 0;
  std::string payload;
};

/// Cuts a stream of bytes into frames.
class FrameReader {
 public:
  explicit FrameReader(std::size_t most_payload) : most_(most_payload) {}
  void add(std::string_view bytes) { bytes_ += bytes; }
  /// The next whole frame. None: more bytes are needed, or the stream is broken.
  std::optional<Frame> next();
  bool broken() const { return broken_; }  ///< a length above the limit: these are no frames

 private:
  std::size_t most_;
  std::string bytes_;
  std::size_t taken_ = 0;
  bool broken_ = false;
};

/// The agent's first words.
struct Greeting {
  std::string version;
  std::string before;  ///< what the login shell printed before them
  std::string after;   ///< the first bytes of frames
};
std::string greeting_line(std::string_view version);
/// None while the greeting has not come completely.
std::optional<Greeting> find_greeting(std::string_view bytes);

/// What an agent knows of its host.
struct AgentFacts {
  std::string host_name;
  int free_port = 0;         ///< kept by the agent as long as it lives
  std::string reached_at;    ///< numeric address at which ssh reached this host; empty: not known
  std::string reached_from;  ///< numeric address from which it came
  std::string encode() const;
  static Result<AgentFacts> decode(std::string_view payload);
};

/// What an agent is to start.
struct StartOrder {
  std::string job_id, master_addr, directory;
  int world_size = 1, first_rank = 0, ranks = 1, master_port = 0;
  std::vector<std::string> command;
  Environment environment;  ///< over the agent's own
  Binding binding = Binding::none;
  bool input_follows = false;         ///< for rank 0
  std::string secret;                 ///< contents of FABRING_SECRET_FILE; empty: none
  std::chrono::milliseconds silence;  ///< after so long without a word the launcher is given up
  std::string encode() const;
  static Result<StartOrder> decode(std::string_view payload);
};

struct RankOutput {
  int rank = 0;
  OutputStream stream = OutputStream::out;
  std::string_view bytes;  ///< of the payload
};
std::string encode_output(int rank, OutputStream stream, std::string_view bytes);
Result<RankOutput> decode_output(std::string_view payload);

struct RankEnd {
  int rank = 0;
  pid_t pid = 0;
  Ending ending;
};
std::string encode_end(int rank, pid_t pid, const Ending& ending);
Result<RankEnd> decode_end(std::string_view payload);

std::string encode_count(std::uint32_t number);  ///< of a signal, or of bytes of input
Result<std::uint32_t> decode_count(std::string_view payload);

}  // namespace fabring::tools

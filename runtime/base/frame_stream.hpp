#pragma once
// FrameStream: typed messages over a connection that has passed the handshake (rendezvous and control plane). A frame
// is a 4-byte length, a 1-byte type and the payload. Belongs to the thread that runs the loop. Memory follows the bytes
// that really came, never the length a peer announces; a frame above the limit ends the stream.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/net/net.hpp"

namespace fabring {

class FrameStream : public std::enable_shared_from_this<FrameStream> {
 public:
  using Frame = std::shared_ptr<const std::string>;  ///< encoded; may be queued on many streams at once
  struct Handlers {
    /// The payload is valid during the call. False: the message is not acceptable, the stream ends.
    std::function<bool(std::uint8_t type, std::string_view payload)> frame;
    /// Once, when the peer closed, the connection broke or a message was not acceptable (`why` says which). Not after
    /// close() here.
    std::function<void(const std::string& why)> ended;
  };

  static std::shared_ptr<FrameStream> open(net::Loop& loop, std::unique_ptr<net::Stream> stream,
                                           std::size_t most_payload_bytes, Handlers handlers);
  static Frame encode(std::uint8_t type, std::string_view payload);

  void send(Frame frame);
  void send(std::uint8_t type, std::string_view payload) { send(encode(type, payload)); }
  std::size_t queued_bytes() const { return queued_bytes_; }
  /// Sends what is queued, then tells the peer that nothing more comes. What the peer still sends is dropped, until it
  /// closes too (`ended`).
  void finish();
  void close();
  /// Closes with a last word, if the connection takes it at once; what is queued is dropped.
  void close_with(const Frame& last);
  bool is_open() const { return stream_ != nullptr; }
  /// Did it end because a message was not acceptable?
  bool ended_by_nonsense() const { return nonsense_; }
  const net::SocketAddress& remote() const { return remote_; }
  const net::SocketAddress& local() const { return local_; }

 private:
  FrameStream(net::Loop& loop, std::unique_ptr<net::Stream> stream, std::size_t most, Handlers handlers);
  void read_on();
  bool deliver();
  void write_on();
  void wait_readable();
  void end(const std::string& why);

  net::Loop& loop_;
  std::unique_ptr<net::Stream> stream_;
  const std::size_t most_payload_bytes_;
  Handlers handlers_;
  const net::SocketAddress remote_;
  const net::SocketAddress local_;
  std::string in_;
  std::deque<Frame> out_;
  std::size_t written_ = 0;  // of out_.front()
  std::size_t queued_bytes_ = 0;
  bool write_planned_ = false;
  bool finishing_ = false;
  bool nonsense_ = false;
};

}  // namespace fabring

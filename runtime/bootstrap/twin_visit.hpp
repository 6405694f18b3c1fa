#pragma once
// TwinVisit: rank 0 calls once at a port that it wanted and somebody else holds. A foreign service is none of our
// business; another process that calls itself rank 0 of the same job would split the ranks between two doors. It
// answers our visit with the end of the rendezvous, and both learn.

#include <functional>
#include <memory>

#include "runtime/base/frame_stream.hpp"
#include "runtime/base/handshake.hpp"
#include "runtime/bootstrap/meeting_wire.hpp"

namespace fabring {

class TwinVisit : public std::enable_shared_from_this<TwinVisit> {
 public:
  /// Dropping what is returned ends the visit. `found` is called in the loop, once, with the twin's own words.
  static std::shared_ptr<TwinVisit> start(net::Loop& loop, const net::SocketAddress& place, HandshakeOptions greeting,
                                          const meeting::Join& self, std::function<void(const Status&)> found);

 private:
  TwinVisit(net::Loop& loop, HandshakeOptions greeting, const meeting::Join& self,
            std::function<void(const Status&)> found);
  void greet(std::unique_ptr<net::Stream> stream);
  void join(std::unique_ptr<net::Stream> stream);

  net::Loop& loop_;
  HandshakeOptions greeting_;
  const meeting::Join self_;
  const std::function<void(const Status&)> found_;
  std::shared_ptr<void> connecting_, greeting_guard_;
  std::shared_ptr<FrameStream> link_;
};

}  // namespace fabring

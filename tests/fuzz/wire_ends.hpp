#pragma once
// WireEnds: two ends of a TCP connection on the loopback: a Stream as the program has it, and a socket that says what a
// fuzz input says. Real sockets, as parsers of streams are told by them where a read ends.

#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string_view>

#include "runtime/base/net/net.hpp"
#include "tests/fuzz/targets.hpp"

namespace fabring::fuzz {

class WireEnds {
 public:
  /// A new connection; what was there before is closed. Valid until the next call.
  static WireEnds& fresh() {
    static WireEnds ends;
    ends.connect();
    return ends;
  }

  net::Loop& loop() { return loop_; }
  std::unique_ptr<net::Stream> take_ours() { return std::move(ours_); }
  void say(std::string_view bytes) {
    iovec part{const_cast<char*>(bytes.data()), bytes.size()};
    if (!bytes.empty()) (void)theirs_->write(std::span(&part, 1));
  }
  /// Nothing more comes.
  void finish() { theirs_->shutdown_send(); }

 private:
  WireEnds() {
    auto opened = net::Listener::open(loop_, {"127.0.0.1", 0}, [this](auto stream) { ours_ = std::move(stream); });
    require(static_cast<bool>(opened), "a listener on the loopback");
    listener_ = std::move(*opened);
  }

  void connect() {
    ours_.reset();
    if (theirs_ != nullptr) {  // gone at once: thousands a second would use up the ports
      const linger now{1, 0};
      (void)::setsockopt(theirs_->native_handle(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
      theirs_.reset();
    }
    while (loop_.poll() > 0) {
    }
    ours_.reset();
    const auto guard = net::connect(loop_, listener_->address(), std::chrono::seconds(10), [this](auto stream) {
      require(static_cast<bool>(stream), "a connection on the loopback");
      theirs_ = std::move(*stream);
    });
    while (theirs_ == nullptr || ours_ == nullptr) loop_.run_for(std::chrono::milliseconds(10));
  }

  net::Loop loop_;
  std::unique_ptr<net::Listener> listener_;
  std::unique_ptr<net::Stream> ours_, theirs_;
};

}  // namespace fabring::fuzz

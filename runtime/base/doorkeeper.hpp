#pragma once
// Doorkeeper: a listener whose visitors must pass the handshake. Handshakes run side by side, so a mute visitor holds
// nobody up; when too many are under way the oldest is thrown out. Belongs to the thread that runs the loop.

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>

#include "runtime/base/handshake.hpp"

namespace fabring {

class Doorkeeper {
 public:
  /// `arrived` gets every peer that passed and every one that was refused with a reason; strangers are only counted.
  /// Errors as Listener::open.
  static Result<std::unique_ptr<Doorkeeper>> open(net::Loop& loop, const net::SocketAddress& address,
                                                  HandshakeOptions options,
                                                  std::function<void(HandshakeResult)> arrived,
                                                  std::shared_ptr<std::atomic<std::uint64_t>> strangers);
  net::SocketAddress address() const { return listener_->address(); }
  /// As Listener::set_congestion_control.
  Status set_congestion_control(const std::string& name) { return listener_->set_congestion_control(name); }
  /// Up to this many may come at once, all with good reason: from now on there is room for them and as many others.
  void expect(std::size_t connections);
  /// As Listener::trouble.
  std::string trouble() const { return listener_->trouble(); }

 private:
  Doorkeeper(net::Loop& loop, HandshakeOptions options, std::function<void(HandshakeResult)> arrived,
             std::shared_ptr<std::atomic<std::uint64_t>> strangers);
  void receive(std::unique_ptr<net::Stream> stream);

  net::Loop& loop_;
  const HandshakeOptions options_;
  const std::function<void(HandshakeResult)> arrived_;
  const std::shared_ptr<std::atomic<std::uint64_t>> strangers_;
  std::size_t most_visitors_;
  std::list<std::shared_ptr<void>> visitors_;  // oldest first
  std::unique_ptr<net::Listener> listener_;
};

}  // namespace fabring

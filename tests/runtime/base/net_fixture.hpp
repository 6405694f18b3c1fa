#pragma once
// Two ends of one connection in one loop.

#include <chrono>
#include <memory>
#include <string>

#include "runtime/base/net/net.hpp"

namespace fabring::net {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto patience = 60s;  // for a machine that is busy with other things

/// Drives the loop until `condition` holds; false when patience ends.
template <class Condition>
bool reach(Loop& loop, Condition condition) {
  const auto deadline = Clock::now() + patience;
  while (!condition()) {
    if (Clock::now() > deadline) return false;
    loop.run_for(10ms);
  }
  return true;
}

/// Two ends of one connection over a listener on `host`.
struct Pair {
  explicit Pair(Loop& loop, const std::string& host = "127.0.0.1") {
    auto opened = Listener::open(loop, {host, 0}, [this](std::unique_ptr<Stream> s) { server = std::move(s); });
    if (!opened) return;
    listener = std::move(*opened);
    const auto guard = connect(loop, listener->address(), patience, [this](Result<std::unique_ptr<Stream>> r) {
      if (r) client = std::move(*r);
    });
    reach(loop, [this] { return client && server; });
  }
  bool ok() const { return client && server; }
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Stream> client, server;
};

}  // namespace fabring::net

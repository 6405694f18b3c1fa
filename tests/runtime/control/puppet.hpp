#pragma once
// Puppet: a rank that joins a control plane as it should, and then says and does what the test wants.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/wire.hpp"
#include "tests/runtime/control/control_world.hpp"

namespace fabring::testing_support {

using control::Message;

/// Below rank 0 if not said otherwise.
class Puppet {
 public:
  Puppet(Board& board, const World& world, Rank self = 1, Rank parent = 0) {
    greeting_.purpose = Purpose::control;
    greeting_.job_id = world.config.job_id;
    greeting_.job_nonce = 4242;
    greeting_.self = self;
    greeting_.world_size = world.config.world_size;
    auto door = Doorkeeper::open(
        loop_, {"127.0.0.1", 0}, greeting_,
        [this](HandshakeResult result) {
          if (result.stream) take(std::move(result.stream));
        },
        std::make_shared<std::atomic<std::uint64_t>>(0));
    EXPECT_TRUE(door.has_value());
    door_ = std::move(*door);
    connect(*board.get("control/" + std::to_string(parent), steady_clock::now() + patience));
    say_identity(self, self == 1 && world.config.world_size == 2 ? "127.0.0.1:1" : door_->address().to_string());
    run_until([&] { return link_->queued_bytes() == 0; });
  }
  /// Its link is to whoever listens there now.
  void connect(const std::string& address) {
    former_ = std::exchange(link_, nullptr);
    heard_.clear();
    HandshakeOptions greeting = greeting_;
    greeting.initiator = true;
    std::shared_ptr<void> shaking;
    auto connecting = net::connect(loop_, *net::SocketAddress::parse(address), patience, [&](auto stream) {
      shaking = handshake(loop_, std::move(*stream), greeting,
                          [&](HandshakeResult result) { take(std::move(result.stream)); });
    });
    run_until([&] { return link_ != nullptr; });
  }
  void say_identity(Rank rank, const std::string& door) {
    say(Message::entry,
        control::encode(control::Entry{
            0, rank, WireWriter().text("puppet house", 256).number(std::uint32_t{99}).text(door, 128).take()}));
  }
  void say(Message type, std::string_view payload) { link_->send(static_cast<std::uint8_t>(type), payload); }
  void raw(std::uint8_t type, std::string_view payload) { link_->send(type, payload); }
  void run_until(const std::function<bool()>& done) {
    const auto end = steady_clock::now() + patience;
    while (!done() && steady_clock::now() < end) loop_.run_for(20ms);
    ASSERT_TRUE(done());
  }
  void shut_door() { door_.reset(); }
  /// Without a goodbye. What it heard is forgotten.
  void hang_up() {
    link_->close();
    heard_.clear();
  }
  bool ended() const { return ended_; }
  std::size_t queued_bytes() const { return link_->queued_bytes(); }
  const std::vector<Message>& heard() const { return heard_; }
  bool has_heard(Message type) const { return std::ranges::find(heard_, type) != heard_.end(); }
  const std::vector<std::pair<Rank, Rank>>& moves() const { return moves_; }
  net::Loop& loop() { return loop_; }
  /// Where another rank listens, once it has told.
  const std::map<Rank, std::string>& doors() const { return doors_; }

 private:
  void take(std::unique_ptr<net::Stream> stream) {
    ended_ = false;
    link_ = FrameStream::open(loop_, std::move(stream), 1 << 20,
                              {[this](std::uint8_t type, std::string_view payload) {
                                 heard_.push_back(static_cast<Message>(type));
                                 if (heard_.back() == Message::entry) add_door(payload);
                                 if (heard_.back() == Message::moved) {
                                   const auto moved = control::decode_moved(payload);
                                   moves_.emplace_back(moved->rank, moved->parent);
                                 }
                                 return true;
                               },
                               [this](const std::string&) { ended_ = true; }});
  }
  void add_door(std::string_view payload) {
    const auto entry = control::decode_entry(payload);
    ASSERT_TRUE(entry.has_value());
    WireReader in(entry->blob);
    (void)in.text(256);
    (void)in.number<std::uint32_t>();
    doors_[entry->origin] = in.text(128);
  }

  net::Loop loop_;
  std::map<Rank, std::string> doors_;
  HandshakeOptions greeting_;
  std::unique_ptr<Doorkeeper> door_;
  std::shared_ptr<FrameStream> link_, former_;
  std::vector<Message> heard_;
  std::vector<std::pair<Rank, Rank>> moves_;
  bool ended_ = false;
};

/// Real planes of all ranks but one, which is a puppet.
struct PuppetWorld : World {
  PuppetWorld(int size, Rank self) : World(size), puppet_rank(self) {}
  /// For another rank below it, which is not there but has a door, the puppet speaks.
  void start(Rank parent, Rank absent = -1, const std::string& its_door = "") {
    planes.resize(heard.size());
    std::vector<std::thread> ranks;
    for (Rank rank = 0; rank < config.world_size; ++rank)
      if (rank != puppet_rank && rank != absent) ranks.emplace_back([this, rank] { begin(rank); });
    puppet = std::make_unique<Puppet>(board, *this, puppet_rank, parent);
    if (absent >= 0) puppet->say_identity(absent, its_door);
    puppet->run_until([&] { return puppet->queued_bytes() == 0; });
    for (auto& thread : ranks) thread.join();
  }
  const Rank puppet_rank;
  std::unique_ptr<Puppet> puppet;
};

}  // namespace fabring::testing_support

#include "tools/fabring/doctor/net_probe.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "runtime/base/named_thread.hpp"
#include "runtime/base/net/socket.hpp"
#include "runtime/base/wire.hpp"

namespace fabring::tools {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;
constexpr std::size_t large_bytes = 64 * 1024;
constexpr std::size_t at_once = 16;
constexpr std::size_t most_guests = 65536;
constexpr int small_messages = 4;

struct ProbeMessage {
  enum Type : std::uint8_t { small = 1, small_answer, large, large_answer };
};

std::int64_t wall_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

bool says(const Status& status, int error) { return status.message().ends_with(net::errno_text(error)); }

Reach of_connect(const Status& status) {
  if (status.code() == ErrorCode::timeout) return Reach::no_answer;
  if (says(status, ECONNREFUSED)) return Reach::refused;
  if (says(status, ECONNRESET)) return Reach::cut;
  return Reach::no_route;  // ENETUNREACH, EHOSTUNREACH, EACCES and EINVAL (prohibit and blackhole routes), ...
}

Reach of_handshake(const HandshakeResult& result) {
  if (result.failure == HandshakeFailure::refused) return Reach::turned_away;
  if (result.status.code() == ErrorCode::timeout) return Reach::mute;
  return result.status.message().find("closed the connection") != std::string::npos ? Reach::cut : Reach::wrong_service;
}

}  // namespace

// One call at one door. Lives in visits_ until it is over; everything in the loop.
class NetProbe::Visit : public std::enable_shared_from_this<NetProbe::Visit> {
 public:
  Visit(NetProbe& owner, int round, std::size_t index, const Target& target)
      : owner_(owner), round_(round), index_(index), target_(target) {
    probe_.to = target.rank;
    probe_.door = target.door;
  }

  void start() {
    guard_ = net::connect(owner_.loop_, target_.address, owner_.limits_.connect,
                          [this](Result<std::unique_ptr<net::Stream>> stream) {
                            if (!stream) return end(of_connect(stream.error()), stream.error().message());
                            if (target_.knock) return end(Reach::fine, "");
                            greet(std::move(*stream));
                          },
                          {.from = target_.from, .congestion_control = {}});
  }

 private:
  void greet(std::unique_ptr<net::Stream> stream) {
    fd_ = stream->native_handle();  // the stream stays the same until this visit ends
    HandshakeOptions options = owner_.greeting_;
    options.initiator = true;
    options.limit = owner_.limits_.small;
    guard_ = handshake(owner_.loop_, std::move(stream), options, [this](HandshakeResult result) {
      if (!result.stream) return end(of_handshake(result), result.status.message());
      if (result.peer.rank != target_.rank)
        return end(Reach::turned_away, "rank " + std::to_string(result.peer.rank) + " answers there");
      talk(std::move(result.stream));
    });
  }

  void talk(std::unique_ptr<net::Stream> stream) {
    link_ = FrameStream::open(owner_.loop_, std::move(stream), 64,
                              {[this](std::uint8_t type, std::string_view payload) { return on_frame(type, payload); },
                               [this](const std::string& why) { end(Reach::cut, "the connection ended: " + why); }});
    arm(owner_.limits_.small, Reach::mute, "no answer to 16 bytes");
    say_small();
  }

  void arm(std::chrono::milliseconds limit, Reach reach, const char* text) {
    guard_ = owner_.loop_.after(limit, [this, reach, text] { end(reach, text); });
  }

  void say_small() {
    said_at_ = std::chrono::steady_clock::now();
    said_wall_ = wall_us();
    link_->send(ProbeMessage::small, WireWriter().number(said_wall_).number(std::int64_t{0}).take());
  }

  bool on_frame(std::uint8_t type, std::string_view payload) {
    const auto now = std::chrono::steady_clock::now();
    WireReader in(payload);
    if (type == ProbeMessage::small_answer && answers_ < small_messages) {
      const auto theirs = in.number<std::int64_t>();
      if (!in.complete()) return false;
      const auto rtt = std::chrono::duration_cast<std::chrono::microseconds>(now - said_at_).count();
      if (answers_++ == 0 || rtt < probe_.rtt_us) {
        probe_.rtt_us = static_cast<std::uint32_t>(std::clamp<std::int64_t>(rtt, 1, 1'000'000'000));
        probe_.offset_us = std::max<std::int64_t>(theirs, 0) - (said_wall_ + rtt / 2);  // it may say anything
      }
      if (answers_ < small_messages) {
        say_small();
      } else {
        arm(owner_.limits_.large, Reach::large_stalls, "no answer to 64 KiB");
        said_at_ = std::chrono::steady_clock::now();
        link_->send(ProbeMessage::large, std::string(large_bytes, 'x'));
      }
      return true;
    }
    if (type != ProbeMessage::large_answer || answers_ < small_messages || !payload.empty()) return false;
    probe_.large_ms =
        static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now - said_at_).count());
    end(Reach::fine, "");
    return true;
  }

  void end(Reach reach, const std::string& text) {
    if (ended_) return;
    ended_ = true;
    probe_.reach = reach;
    probe_.text = text;
    // The address is known with the door. Without it the words are alike for many, and travel once.
    const std::string address = target_.address.to_string();
    if (const auto at = text.find(address); at != std::string::npos) probe_.text.replace(at, address.size(), "it");
    if (link_ && link_->is_open()) look_at_socket();
    // What is running now may belong to what is dropped here.
    owner_.loop_.post([self = shared_from_this()] {
      self->guard_.reset();
      if (self->link_) self->link_->close();
      self->owner_.visits_.erase(self);
      self->owner_.next();
    });
    const std::lock_guard lock(owner_.mutex_);
    if (round_ != owner_.round_) return;
    owner_.found_[index_] = probe_;
    --owner_.left_;
    owner_.changed_.notify_all();
  }

  void look_at_socket() {
    int mtu = 0, segment = 0;
    socklen_t length = sizeof(mtu);
    const bool v6 = target_.address.is_v6();
    if (::getsockopt(fd_, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_MTU : IP_MTU, &mtu, &length) == 0 && mtu > 0)
      probe_.path_mtu = static_cast<std::uint32_t>(mtu);
    length = sizeof(segment);
    if (::getsockopt(fd_, IPPROTO_TCP, TCP_MAXSEG, &segment, &length) == 0)
      probe_.segment = static_cast<std::uint16_t>(std::clamp(segment, 0, 65535));
  }

  NetProbe& owner_;
  const int round_;
  const std::size_t index_;
  const Target target_;
  Probe probe_;
  std::shared_ptr<void> guard_;  // of the step under way
  std::shared_ptr<FrameStream> link_;
  int fd_ = -1;
  SteadyTime said_at_;
  std::int64_t said_wall_ = 0;
  int answers_ = 0;
  bool ended_ = false;
};

NetProbe::NetProbe(const HandshakeOptions& greeting, const ProbeLimits& limits)
    : greeting_(greeting), limits_(limits) {}

NetProbe::~NetProbe() {
  if (thread_.joinable()) {
    loop_.post([this] {
      stop_ = true;
      loop_.wake();
    });
    thread_.join();
  }
  waiting_.clear();
  (void)loop_.poll();  // what was posted holds visits, and those hold streams of the loop
  visits_.clear();
  for (auto& [number, guest] : guests_) guest->close();
}

Result<net::SocketAddress> NetProbe::listen(const std::string& host) {
  auto door = Doorkeeper::open(
      loop_, {host, 0}, greeting_, [this](HandshakeResult result) { arrived(std::move(result)); }, strangers_);
  if (!door) return door.error();
  doors_.push_back(std::move(*door));
  return doors_.back()->address();
}

Status NetProbe::start() {
  FABRING_TRY(loop_.status());
  auto thread = start_thread("fabring-probe", [this] { run(); });
  if (!thread) return thread.error();
  thread_ = std::move(*thread);
  return {};
}

void NetProbe::run() {
  while (!stop_) loop_.run_for(std::chrono::seconds(1));
}

void NetProbe::arrived(HandshakeResult result) {
  if (!result.stream || guests_.size() >= most_guests) return;
  const std::uint64_t number = next_guest_++;
  const auto on_frame = [this, number](std::uint8_t type, std::string_view payload) {
    const auto at = guests_.find(number);
    if (at == guests_.end()) return false;
    if (type == ProbeMessage::small && payload.size() == 16) {
      at->second->send(ProbeMessage::small_answer, WireWriter().number(wall_us()).take());
    } else if (type == ProbeMessage::large && payload.size() == large_bytes) {
      at->second->send(ProbeMessage::large_answer, "");
    } else {
      return false;
    }
    return true;
  };
  guests_[number] = FrameStream::open(
      loop_, std::move(result.stream), large_bytes,
      {on_frame, [this, number](const std::string&) { loop_.post([this, number] { guests_.erase(number); }); }});
}

void NetProbe::next() {
  while (visits_.size() < at_once && !waiting_.empty()) {
    const auto [index, target] = waiting_.front();
    waiting_.pop_front();
    const auto visit = std::make_shared<Visit>(*this, calling_, index, target);
    visits_.insert(visit);
    visit->start();
  }
}

std::vector<Probe> NetProbe::call(const std::vector<Target>& targets, SteadyTime deadline) {
  std::unique_lock lock(mutex_);
  found_.assign(targets.size(), {});
  for (std::size_t i = 0; i < targets.size(); ++i) {
    found_[i].to = targets[i].rank;
    found_[i].door = targets[i].door;
  }
  left_ = targets.size();
  const int round = ++round_;
  loop_.post([this, targets, round] {
    waiting_.clear();
    calling_ = round;
    for (std::size_t i = 0; i < targets.size(); ++i) waiting_.emplace_back(i, targets[i]);
    next();
  });
  changed_.wait_until(lock, deadline, [&] { return left_ == 0; });
  return found_;
}

}  // namespace fabring::tools

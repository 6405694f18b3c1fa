#include "runtime/base/handshake.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "fabring/config.hpp"
#include "runtime/base/hello.hpp"
#include "runtime/base/rank_list.hpp"

// Who says what. Without a secret that is one round trip for the initiator; with one, two.
//
//   initiator                          acceptor
//   hello                        ->
//                                <-    hello, verdict
//   verdict [, proof]            ->
//                                <-    [verdict, proof]
//
// The acceptor says nothing before it has read a whole hello: a stranger gets no byte from us. One that refuses the
// initiator's hello says its own without the job and its nonce, as anybody may ask at a port. Proofs are exchanged
// only when both hellos announce a secret and both verdicts accept; the acceptor's comes last, so that who asks at a
// port gets nothing by which secrets could be guessed at leisure. A side that refuses says why, stops sending and
// reads on for a moment, so that closing with unread bytes does not destroy (RST) what it said.

namespace fabring {
namespace {

constexpr std::size_t proof_bytes = std::tuple_size_v<Digest>;
constexpr auto drain_limit = std::chrono::milliseconds(200);

class Conversation : public std::enable_shared_from_this<Conversation> {
 public:
  Conversation(net::Loop& loop, std::unique_ptr<net::Stream> stream, const HandshakeOptions& options,
               std::function<void(HandshakeResult)> done)
      : loop_(loop),
        stream_(std::move(stream)),
        options_(options),
        done_(std::move(done)),
        remote_(stream_->remote()) {}

  void start() {
    arm(options_.limit, &Conversation::expire);
    auto hello = make_hello(options_);
    if (!hello) return finish(HandshakeFailure::stranger, hello.error());
    own_ = encode(*hello);
    own_without_job_ = encode(without_job(*hello));
    expect(State::hello, hello_bytes);
    if (options_.initiator) say(own_);
    go_on();
  }

  template <class Member>
  void later(Member member) {
    loop_.post([weak = weak_from_this(), member] {
      if (auto self = weak.lock()) ((*self).*member)();
    });
  }

 private:
  enum class State : std::uint8_t { hello, verdict, proof, final_verdict, flush, drain, finished };

  void arm(std::chrono::nanoseconds delay, void (Conversation::*member)()) {
    timer_ = loop_.after(delay, [weak = weak_from_this(), member] {
      if (auto self = weak.lock()) ((*self).*member)();
    });
  }

  void expect(State state, std::size_t bytes) {
    state_ = state;
    wanted_ = bytes;
    have_ = 0;
  }

  void say(std::string_view bytes) { out_.append(bytes); }
  void say(Refusal verdict) { out_.push_back(static_cast<char>(verdict)); }

  // Writes what there is to say, reads what is expected, until the socket wants us to wait.
  void go_on() {
    while (state_ != State::finished) {
      if (!write_out()) return;
      if (state_ == State::flush) return out_.empty() ? finish_well() : void();
      if (state_ == State::drain) return drain();
      const net::IoResult got = stream_->read(in_.data() + have_, wanted_ - have_);
      if (got.state == net::Io::again) return wait_readable();
      if (got.state != net::Io::done)
        return finish(HandshakeFailure::stranger,
                      Status(ErrorCode::unavailable, remote_.to_string() + " closed the connection during the "
                                                                           "handshake"));
      have_ += got.bytes;
      if (state_ == State::hello && !hello_begins_well()) return;
      if (have_ == wanted_) step();
    }
  }

  bool write_out() {
    while (!out_.empty()) {
      const net::IoResult put = stream_->write(out_.data(), out_.size());
      if (put.state == net::Io::again) {
        stream_->when_writable([weak = weak_from_this()] {
          if (auto self = weak.lock()) self->go_on();
        });
        return state_ != State::flush;
      }
      if (put.state != net::Io::done) {
        if (state_ == State::drain) return out_.clear(), true;
        finish(HandshakeFailure::stranger,
               Status(ErrorCode::unavailable, remote_.to_string() + " closed the connection during the handshake"));
        return false;
      }
      out_.erase(0, put.bytes);
    }
    return true;
  }

  void wait_readable() {
    if (reading_) return;
    reading_ = true;
    stream_->when_readable([weak = weak_from_this()] {
      auto self = weak.lock();
      if (!self) return;
      self->reading_ = false;
      self->go_on();
    });
  }

  std::string_view seen() const { return {in_.data(), have_}; }

  bool hello_begins_well() {
    if (!could_be_hello(seen())) {
      finish(HandshakeFailure::stranger,
             Status(ErrorCode::unavailable, remote_.to_string() + " does not speak Fabring's protocol"));
      return false;
    }
    if (have_ < hello_prefix_bytes || version_of(seen()) == wire_version) return true;
    version_ = version_of(seen());
    if (!options_.initiator) say(own_without_job_);
    refuse(Refusal::version, false);
    return false;
  }

  void step() {
    switch (state_) {
      case State::hello:
        return on_hello();
      case State::verdict:
        return on_verdict(static_cast<Refusal>(in_[0]));
      case State::proof:
        return on_proof();
      case State::final_verdict:
        if (in_[0] != 0) return refuse(static_cast<Refusal>(in_[0]), true);
        return expect(State::proof, proof_bytes);
      case State::flush:
      case State::drain:
      case State::finished:
        return;
    }
  }

  void on_hello() {
    peer_ = decode_hello(seen());
    // A hello with our own role is our own hello coming back: a connection to ourselves, or a reflector.
    if (!peer_ || peer_->initiator == options_.initiator)
      return finish(HandshakeFailure::stranger,
                    Status(ErrorCode::unavailable, remote_.to_string() + " sent a hello that is none of ours"));
    theirs_ = std::string(seen());
    const Refusal why = check_hello(options_, *peer_);
    if (options_.initiator) {
      own_verdict_ = why;
      return expect(State::verdict, 1);
    }
    say(why == Refusal::none ? own_ : own_without_job_);
    if (why != Refusal::none) return refuse(why, false);
    say(why);
    expect(State::verdict, 1);
  }

  void on_verdict(Refusal theirs) {
    if (peer_->withheld) return on_refusal(theirs);
    if (own_verdict_ != Refusal::none) return refuse(own_verdict_, false);
    if (theirs != Refusal::none) return refuse(theirs, true);
    if (options_.initiator) say(Refusal::none);
    if (options_.secret.empty()) return leave_well();
    if (!options_.initiator) return expect(State::proof, proof_bytes);
    if (say_proof()) expect(State::final_verdict, 1);
  }

  // Of the job and the nonce, which are not here to be compared, the acceptor is believed.
  void on_refusal(Refusal theirs) {
    if (theirs == Refusal::none)
      return finish(HandshakeFailure::stranger,
                    Status(ErrorCode::unavailable, remote_.to_string() + " sent a hello that is none of ours"));
    const bool as_here = theirs == own_verdict_ || theirs == Refusal::job || theirs == Refusal::incarnation;
    refuse(theirs, !as_here);
  }

  void on_proof() {
    Digest expected;
    Digest shown;
    std::memcpy(shown.data(), in_.data(), shown.size());
    if (!proof_of(!options_.initiator, expected) || !equal_in_constant_time(expected, shown))
      return refuse(Refusal::secret, false);
    if (options_.initiator) return leave_well();
    say(Refusal::none);
    if (say_proof()) leave_well();
  }

  bool proof_of(bool initiator, Digest& proof) const {
    return options_.initiator ? prove(options_.secret, initiator, own_, theirs_, proof)
                              : prove(options_.secret, initiator, theirs_, own_, proof);
  }

  bool say_proof() {
    Digest proof;
    if (!proof_of(options_.initiator, proof)) {
      finish(HandshakeFailure::stranger, Status(ErrorCode::internal, "OpenSSL could not compute HMAC-SHA256"));
      return false;
    }
    say({reinterpret_cast<const char*>(proof.data()), proof.size()});
    return true;
  }

  // A success counts once the last byte is out: the stream is handed on with nothing of ours in flight.
  void leave_well() { state_ = State::flush; }

  void refuse(Refusal why, bool by_peer) {
    refusal_ = why;
    refusal_status_ = explain_refusal(why, options_, peer_ ? &*peer_ : nullptr, version_, remote_, by_peer);
    say(why);
    state_ = State::drain;
    arm(std::min<std::chrono::nanoseconds>(drain_limit, options_.limit), &Conversation::finish_refused);
    if (write_out()) drain();
  }

  void drain() {
    if (!out_.empty()) return;
    stream_->shutdown_send();
    for (int rounds = 0; rounds < 16; ++rounds) {
      const net::IoResult got = stream_->read(in_.data(), in_.size());
      if (got.state == net::Io::again) return wait_readable();
      if (got.state != net::Io::done) break;
    }
    finish_refused();
  }

  void expire() {
    finish(HandshakeFailure::stranger,
           Status(ErrorCode::timeout, fmt::format("{} did not finish the handshake within {}", remote_.to_string(),
                                                  duration_text(options_.limit))));
  }

  void finish_refused() {
    HandshakeResult result;
    result.failure = HandshakeFailure::refused;
    result.refusal = refusal_;
    result.status = refusal_status_;
    report(std::move(result));
  }

  void finish(HandshakeFailure failure, Status status) {
    HandshakeResult result;
    result.failure = failure;
    result.status = std::move(status);
    report(std::move(result));
  }

  void finish_well() {
    HandshakeResult result;
    result.stream = std::move(stream_);
    report(std::move(result));
  }

  void report(HandshakeResult result) {
    if (state_ == State::finished) return;
    state_ = State::finished;
    timer_.reset();
    result.remote = remote_;
    if (peer_) result.peer = {peer_->rank, peer_->lane, peer_->world_size};
    if (stream_) stream_->close();
    const auto done = std::move(done_);
    done(std::move(result));
  }

  net::Loop& loop_;
  std::unique_ptr<net::Stream> stream_;
  const HandshakeOptions options_;
  std::function<void(HandshakeResult)> done_;
  const net::SocketAddress remote_;
  std::shared_ptr<void> timer_;
  State state_ = State::hello;
  bool reading_ = false;
  std::array<char, 128> in_{};  // the longest message is the hello
  std::size_t have_ = 0;
  std::size_t wanted_ = hello_bytes;
  std::string out_;  // at most a hello, a verdict and a proof
  std::string own_;
  std::string own_without_job_;
  std::string theirs_;
  std::optional<Hello> peer_;
  std::uint16_t version_ = 0;
  Refusal own_verdict_ = Refusal::none;
  Refusal refusal_ = Refusal::none;
  Status refusal_status_;
};

}  // namespace

HandshakeOptions greeting_for(const Config& config, const std::string& secret, std::uint64_t job_nonce,
                              Purpose purpose) {
  HandshakeOptions greeting;
  greeting.purpose = purpose;
  greeting.job_id = config.job_id;
  greeting.job_nonce = job_nonce;
  greeting.self = config.rank;
  greeting.world_size = config.world_size;
  greeting.secret = secret;
  return greeting;
}

std::shared_ptr<void> handshake(net::Loop& loop, std::unique_ptr<net::Stream> stream, const HandshakeOptions& options,
                                std::function<void(HandshakeResult)> done) {
  auto conversation = std::make_shared<Conversation>(loop, std::move(stream), options, std::move(done));
  conversation->later(&Conversation::start);  // so that `done` never runs inside this call
  return conversation;
}

}  // namespace fabring
